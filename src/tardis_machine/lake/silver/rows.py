"""Bronze rows to Silver rows: decode, validate, deduplicate. Pure functions on DataFrames."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from tardis_machine.lake.arrow import arrow_field
from tardis_machine.lake.bronze.headers import header_columns
from tardis_machine.lake.silver.limits import EventLimits
from tardis_machine.lake.silver.payloads import payload_columns
from tardis_machine.lake.spark.schemas import spark_field
from tardis_machine.lake.tables import SILVER_BY_CASE, Table
from tardis_machine.lake.tables.bronze import BUS_COLUMNS, EVENTS, UNKNOWN
from tardis_machine.lake.tables.silver import CONTROL_EVENTS, QUARANTINE

PROBLEM = "problem"
MAX_CLOCK_SKEW = "INTERVAL 1 DAY"
DEFAULT_LIMITS = EventLimits()

_LEVELS = ("bid_prices", "bid_amounts", "ask_prices", "ask_amounts")
_BUS_NAMES = tuple(column.name for column in BUS_COLUMNS)


def silver_rows(
    events: DataFrame,
    case: str,
    keep: Sequence[str] = (),
    limits: EventLimits = DEFAULT_LIMITS,
) -> DataFrame:
    """Decode and validate the Bronze rows of one payload case.

    Args:
        events: Rows of `bronze.events` with that payload case.
        case: The payload case.
        keep: Additional Bronze columns in the result.
        limits: Which event times are rejected.

    Returns:
        The columns of the Silver table, those to keep, and `problem`: null for a valid row.
    """
    return events.transform(decoded, case, keep).transform(checked, SILVER_BY_CASE[case], limits)


def decoded(events: DataFrame, case: str, keep: Sequence[str] = ()) -> DataFrame:
    """Decode envelopes to the columns of the Silver table; `problem` says what failed."""
    table = SILVER_BY_CASE[case]
    kept = [c for c in EVENTS.columns if c.name in keep and c.name not in table.column_names]
    columns = [*table.columns, *kept]
    schema = StructType([*map(spark_field, columns), StructField(PROBLEM, StringType())])
    output = pa.schema([*map(arrow_field, columns), pa.field(PROBLEM, pa.string())])
    # Decoding the header again costs less than sending its columns to Python and back.
    inputs = dict.fromkeys([*keep, "date", "envelope"])
    return events.select(*inputs).mapInArrow(_decoder(case, output), schema)


def _decoder(
    case: str, output: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            envelopes = batch.column("envelope")
            payload, problems = payload_columns(case, envelopes)
            passed = dict(zip(batch.schema.names, batch.columns, strict=True))
            columns = {**header_columns(envelopes), **payload, **passed, PROBLEM: problems}
            arrays = [columns[field.name].cast(field.type) for field in output]
            yield pa.RecordBatch.from_arrays(arrays, schema=output)

    return decode


def checked(rows: DataFrame, table: Table, limits: EventLimits = DEFAULT_LIMITS) -> DataFrame:
    """Set `problem` to the first rule that a row violates, unless it is set already."""
    rules = [F.when(violated, F.lit(reason)) for reason, violated in _rules(table, limits)]
    return rows.withColumn(PROBLEM, F.coalesce(F.col(PROBLEM), *rules))


def _rules(table: Table, limits: EventLimits) -> Iterator[tuple[str, Column]]:
    """Yield the reasons to reject a row, each with its condition."""
    yield "no exchange", F.col("exchange") == ""
    yield "no local time, or out of range", F.col("local_ts").isNull()
    yield (
        "local time in the future",
        F.col("local_ts") > F.col("ingest_ts") + F.expr(MAX_CLOCK_SKEW),
    )
    if table is not CONTROL_EVENTS:
        yield "no symbol", F.col("symbol") == ""
        yield "no event time, or out of range", F.col("event_ts").isNull()
        yield "event time too far from local time", limits.is_exceeded()
    if "price" in table.column_names:
        yield "price or amount is not a number", ~(_is_finite("price") & _is_finite("amount"))
    if "bid_prices" in table.column_names:
        yield "prices and amounts differ in number", ~_has_even_levels()


def _is_finite(name: str) -> Column:
    limit = F.lit(float("inf"))
    return (F.col(name) > -limit) & (F.col(name) < limit)


def _has_even_levels() -> Column:
    bids, bid_amounts, asks, ask_amounts = (F.size(name) for name in _LEVELS)
    return (bids == bid_amounts) & (asks == ask_amounts)


def first_per_event(rows: DataFrame, table: Table) -> DataFrame:
    """Keep one row per identity, the one encoded first."""
    return _one_per_event(rows, table, F.col("ingest_ts"))


def newest_per_event(rows: DataFrame, table: Table) -> DataFrame:
    """Keep one row per identity: of the newest mappers, and of those the one encoded last."""
    return _one_per_event(rows, table, F.col("mapper_version").desc(), F.col("ingest_ts").desc())


def _one_per_event(rows: DataFrame, table: Table, *order: Column) -> DataFrame:
    window = Window.partitionBy(*table.key).orderBy(*order)
    ranked = rows.withColumn("rank", F.row_number().over(window))
    return ranked.where(F.col("rank") == 1).drop("rank")


def quarantine_rows(
    events: DataFrame, case: str, limits: EventLimits = DEFAULT_LIMITS
) -> DataFrame:
    """Return rows of `silver.quarantine` for the events that are rejected."""
    if case in SILVER_BY_CASE:
        keep = (*_BUS_NAMES, "payload_case", "envelope")
        rows = silver_rows(events, case, keep, limits).withColumnRenamed(PROBLEM, "reason")
    else:
        rows = events.withColumn("reason", _undecodable_reason())
    return rows.where(F.col("reason").isNotNull()).select(*QUARANTINE.column_names)


def _undecodable_reason() -> Column:
    return (
        F.when(F.col("payload_case") == UNKNOWN, "no payload that this version knows")
        .when(F.col("envelope").isNull(), "null record")
        .when(F.length("envelope") == 0, "empty record")
        .otherwise("malformed envelope")
    )
