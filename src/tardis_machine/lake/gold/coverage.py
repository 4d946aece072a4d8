"""`gold.coverage`: how complete each capture is per minute, and which one is preferred."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.windows import SERIES
from tardis_machine.lake.store.times import minute_of
from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.gold import COVERAGE
from tardis_machine.lake.tables.silver import DISCONNECT
from tardis_machine.model.time import MINUTE_US, SECOND_US

SECONDS_PER_MINUTE = 60
_KEYS = (*SERIES, "data_type", "capture", "minute")


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
        "exchange", "capture", minute_of("local_ts").alias("minute"), "symbols"
    )
    same = ["exchange", "capture", "minute"]
    is_affected = F.col("symbols").isNull() | F.array_contains("symbols", F.col("symbol"))
    pairs = counted.join(F.broadcast(lost), same).where(is_affected)
    seen = pairs.groupBy(*_KEYS).agg(F.count(F.lit(1)).alias("disconnects"))
    joined = counted.join(seen, list(_KEYS), "left")
    return joined.withColumn("disconnects", F.coalesce("disconnects", F.lit(0)))


def with_preferred(counted: DataFrame) -> DataFrame:
    """Mark the capture with the most events of each minute; on a tie, `history`."""
    minute = Window.partitionBy(*SERIES, "data_type", "minute")
    # `history` sorts before `live:…`.
    best_first = minute.orderBy(F.col("events").desc(), F.col("capture"))
    return counted.withColumn("is_preferred", F.row_number().over(best_first) == 1)
