"""Bronze to Silver: one streaming query for all payload cases.

The stream carries only the header columns and the file of each row; from them a batch is planned.
Each case then reads its own files again, so that a batch decodes every envelope once, however many
cases it has.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, Observation, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.lake.schemas import spark_schema
from tardis_machine.lake.silver import (
    IDENTITY,
    PROBLEM,
    first_per_event,
    refused_rows,
    repeated_cases,
    silver_rows,
)
from tardis_machine.lake.store import Store, between_days, between_times
from tardis_machine.lake.tables import SILVER_BY_CASE, Table
from tardis_machine.lake.tables.bronze import EVENTS
from tardis_machine.lake.tables.silver import QUARANTINE, TOUCHED_MINUTES

QUERY = "refine"
_HEADER = tuple(dict.fromkeys((*IDENTITY, "date", "event_ts")))


@dataclass(frozen=True)
class CasePlan:
    """What a batch holds of one payload case."""

    case: str
    files: tuple[str, ...]
    first_date: date
    last_date: date
    first_local_us: int | None
    last_local_us: int | None
    has_repetitions: bool


def refine_writer(store: Store, max_batch_bytes: int) -> DataStreamWriter:
    """Return the streaming query; the caller sets its trigger and starts it."""
    store.create(EVENTS)
    store.create(TOUCHED_MINUTES)
    events = (
        store.spark.readStream.format("delta")
        .option("maxBytesPerTrigger", max_batch_bytes)
        .load(store.path(EVENTS))
    )
    headers = events.select(*_HEADER, F.input_file_name().alias("file"))
    return (
        headers.writeStream.queryName(QUERY)
        .option("checkpointLocation", store.checkpoint(QUERY))
        .foreachBatch(lambda batch, _: refine_batch(batch, store))
    )


def refine_batch(headers: DataFrame, store: Store) -> None:
    """Bring one batch of Bronze files into Silver; doing it again changes nothing."""
    groups = headers.transform(grouped_by_minute).persist()
    try:
        plans = plan_batch(groups, headers)
        for plan in plans:
            _refine_case(plan, store)
        # Last, so that a batch that broke off is planned again as a whole.
        if any(plan.case in SILVER_BY_CASE for plan in plans):
            store.append(groups.transform(touched_minutes), TOUCHED_MINUTES)
    finally:
        groups.unpersist()


def grouped_by_minute(headers: DataFrame) -> DataFrame:
    """Return files, minutes and bounds of the rows: all that planning needs, in few rows."""
    minute = F.date_trunc("minute", F.coalesce("event_ts", "local_ts"))
    groups = headers.groupBy(
        "payload_case", "exchange", "symbol", "date", "file", minute.alias("minute")
    )
    local_us = F.unix_micros("local_ts")
    return groups.agg(F.min(local_us).alias("first_us"), F.max(local_us).alias("last_us"))


def touched_minutes(groups: DataFrame) -> DataFrame:
    """Return rows of `silver.touched_minutes`."""
    known = groups.where(F.col("payload_case").isin(*SILVER_BY_CASE) & F.col("minute").isNotNull())
    days = known.withColumn("date", F.to_date("minute"))
    return days.select(*TOUCHED_MINUTES.column_names).distinct()


def plan_batch(groups: DataFrame, headers: DataFrame) -> list[CasePlan]:
    """Return what to do, case by case."""
    found = groups.groupBy("payload_case").agg(
        F.collect_set("file").alias("files"),
        F.min("date").alias("first_date"),
        F.max("date").alias("last_date"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
    )
    rows = found.orderBy("payload_case").collect()
    repeated = {row.payload_case for row in repeated_cases(headers).collect()} if rows else set()
    return [_plan(row, has_repetitions=row.payload_case in repeated) for row in rows]


def _plan(row: Row, *, has_repetitions: bool) -> CasePlan:
    return CasePlan(
        case=row.payload_case,
        files=tuple(sorted(row.files)),
        first_date=row.first_date,
        last_date=row.last_date,
        first_local_us=row.first_us,
        last_local_us=row.last_us,
        has_repetitions=has_repetitions,
    )


def _refine_case(plan: CasePlan, store: Store) -> None:
    events = read_files(store, plan.files)
    table = SILVER_BY_CASE.get(plan.case)
    refused = 1 if table is None else _insert_events(events, table, plan, store)
    if refused:
        days = between_days("date", plan.first_date, plan.last_date)
        store.insert_new(refused_rows(events, plan.case), QUARANTINE, days)


def read_files(store: Store, files: Iterable[str]) -> DataFrame:
    """Return the Bronze rows of some files."""
    reader = store.spark.read.schema(spark_schema(EVENTS))
    return reader.option("basePath", store.path(EVENTS)).parquet(*files)


def _insert_events(events: DataFrame, table: Table, plan: CasePlan, store: Store) -> int:
    """Add the events that the table lacks, and return how many rows were refused.

    Equal identities have equal local times. So rows outside of the times that the table already has
    are simply appended, and only the others are compared.
    """
    first_us, last_us = plan.first_local_us, plan.last_local_us
    if first_us is None or last_us is None:
        return 1
    bounds = (
        between_days("date", plan.first_date, plan.last_date),
        between_times("local_ts", first_us, last_us),
    )
    overlap = known_times(store, table, bounds)
    if overlap is None:
        return _write(events, table, plan, store, ())
    is_inside = F.expr(between_times("local_ts", *overlap))
    refused = _write(events.alias("t").where(is_inside), table, plan, store, bounds)
    if first_us < overlap[0] or last_us > overlap[1]:
        refused += _write(events.alias("t").where(~is_inside), table, plan, store, ())
    return refused


def known_times(store: Store, table: Table, bounds: Iterable[str]) -> tuple[int, int] | None:
    """Return the first and last local time (µs) that a table has within bounds, if any."""
    rows = store.read(table).alias("t").where(" AND ".join(bounds))
    local_us = F.unix_micros("local_ts")
    first_us, last_us = rows.agg(F.min(local_us), F.max(local_us)).collect()[0]
    return None if first_us is None else (first_us, last_us)


def _write(
    events: DataFrame, table: Table, plan: CasePlan, store: Store, bounds: tuple[str, ...]
) -> int:
    """Append rows, or with bounds insert what is new; return how many were refused."""
    observed = Observation()
    rows = silver_rows(events, plan.case).observe(
        observed, F.count_if(F.col(PROBLEM).isNotNull()).alias("refused")
    )
    good = rows.where(F.col(PROBLEM).isNull()).drop(PROBLEM)
    if plan.has_repetitions:
        good = first_per_event(good, table)
    if bounds:
        store.insert_new(good, table, *bounds)
    else:
        store.append(good, table)
    return int(observed.get["refused"])
