"""`gold.coverage`: how complete each capture is per minute, and which one is preferred."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.bronze.headers import HISTORY, PARTIAL, RECORDED
from tardis_machine.lake.gold.windows import SERIES
from tardis_machine.lake.store.times import minute_of
from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.gold import COVERAGE
from tardis_machine.lake.tables.silver import DISCONNECT, EVENT_TABLES, QUOTE_CASES, TRADE_BARS
from tardis_machine.model.time import MINUTE_US, SECOND_US

SECONDS_PER_MINUTE = 60
_KEYS = (*SERIES, "data_type", "capture", "minute")
_BAR, _QUOTE = TRADE_BARS.cases[0], "quote"

CASE_GROUPS: Mapping[str, tuple[str, ...]] = {
    **{
        table.cases[0]: table.cases for table in EVENT_TABLES if not {*table.cases} & {*QUOTE_CASES}
    },
    _QUOTE: QUOTE_CASES,
}
"""Payload cases that are counted anew together, by the name of their group."""


def events_of(rows: DataFrame, table: Table) -> DataFrame:
    """Return the columns of a Silver table that coverage is counted from."""
    data_type = F.col("name") if table.is_computed else F.lit(table.cases[0])
    return rows.select(*SERIES, data_type.alias("data_type"), "capture", "event_ts")


def coverage_rows(events: DataFrame, disconnects: DataFrame) -> DataFrame:
    """Return rows of `gold.coverage`.

    Args:
        events: From `events_of`, whole minutes.
        disconnects: Rows of `silver.control_events` for at least the same minutes.
    """
    counted = events.transform(_counted).transform(_with_disconnects, disconnects)
    preferred = counted.transform(with_preferred)
    return preferred.withColumn("date", F.to_date("minute")).select(*COVERAGE.column_names)


def _counted(events: DataFrame) -> DataFrame:
    # One bit per second of the minute says which seconds had an event.
    second = F.expr(f"CAST(pmod(unix_micros(event_ts), {MINUTE_US}) DIV {SECOND_US} AS INT)")
    seconds = F.bit_count(F.bit_or(F.call_function("shiftleft", F.lit(1).cast("long"), second)))
    keys = (*SERIES, "data_type", "capture", minute_of("event_ts").alias("minute"))
    return events.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("events"),
        (F.lit(SECONDS_PER_MINUTE) - seconds).cast("long").alias("silent_seconds"),
        F.min("event_ts").alias("first_ts"),
        F.max("event_ts").alias("last_ts"),
    )


def _with_disconnects(counted: DataFrame, control_events: DataFrame) -> DataFrame:
    """Count the disconnects of the exchange and capture of each row that affect its symbol."""
    lost = control_events.where(F.col("payload_case") == DISCONNECT).select(
        "exchange",
        F.col("capture").alias("lost_by"),
        minute_of("local_ts").alias("minute"),
        "symbols",
    )
    # A disconnect lacks nothing, whatever the replay that met it lacks.
    recorded = F.regexp_extract("capture", f":({RECORDED}.*)", 1)
    complete = F.when(recorded == "", HISTORY).otherwise(recorded)
    lost_by = F.when(F.col("capture").startswith(PARTIAL), complete).otherwise(F.col("capture"))
    same = ["exchange", "lost_by", "minute"]
    is_affected = F.col("symbols").isNull() | F.array_contains("symbols", F.col("symbol"))
    pairs = counted.withColumn("lost_by", lost_by).join(F.broadcast(lost), same).where(is_affected)
    seen = pairs.groupBy(*_KEYS).agg(F.count(F.lit(1)).alias("disconnects"))
    joined = counted.join(seen, list(_KEYS), "left")
    return joined.withColumn("disconnects", F.coalesce("disconnects", F.lit(0)))


def of_dirty_minutes(coverage: DataFrame, dirty: Mapping[str, DataFrame]) -> DataFrame:
    """Keep rows that are counted anew.

    Args:
        coverage: Rows of `gold.coverage`.
        dirty: Exchange, symbol and dirty minute of each group of `CASE_GROUPS`.
    """
    keys = [*SERIES, "minute"]
    parts = (minutes.select(*keys, F.lit(group).alias("group")) for group, minutes in dirty.items())
    minutes = F.broadcast(reduce(DataFrame.unionByName, parts))
    grouped = coverage.withColumn("group", _group_of("data_type"))
    return grouped.join(minutes, [*keys, "group"], "left_semi").drop("group")


def _group_of(data_type: str) -> Column:
    """Return the group of a data type; computed ones have names of their own."""
    name = F.col(data_type)
    plain = name.isin(*(set(CASE_GROUPS) - {_BAR, _QUOTE}))
    return F.when(plain, name).when(name.startswith(_BAR), _BAR).otherwise(_QUOTE)


def with_preferred(counted: DataFrame) -> DataFrame:
    """Mark the complete capture with the most events of each minute; on a tie, `history`."""
    minute = Window.partitionBy(*SERIES, "data_type", "minute")
    is_partial = F.col("capture").startswith(PARTIAL)
    # `history` sorts before `live:…` and `recorded:…`.
    best_first = minute.orderBy(is_partial, F.col("events").desc(), F.col("capture"))
    return counted.withColumn("is_preferred", F.row_number().over(best_first) == 1)
