"""What all Gold tables share: windows of time, the order of events, and the preferred capture."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.model.time import MINUTE_US, SECOND_US

SERIES = ("exchange", "symbol")

_DELAY_BITS, _ORDINAL_BITS = 30, 13
_MAX_DELAY_US = 1 << (_DELAY_BITS - 1)
_MAX_ORDINAL = (1 << _ORDINAL_BITS) - 1


def minute_of(column: str | Column) -> Column:
    """Return the start of the minute of a time."""
    return _start_of(column, MINUTE_US)


def second_of(column: str | Column) -> Column:
    """Return the start of the second of a time."""
    return _start_of(column, SECOND_US)


def _start_of(column: str | Column, length_us: int) -> Column:
    # `date_trunc` goes through time zones and costs ten times as much.
    time_us = F.unix_micros(column)
    return F.timestamp_micros(time_us - F.pmod(time_us, F.lit(length_us)))


def order_in_second() -> Column:
    """Return a number that orders the events of one second: event time, local time, ordinal.

    One 64-bit number, because an aggregate that is ordered by a struct sorts all rows (four times
    slower). Delays beyond nine minutes count as nine minutes; they only matter between events with
    the same event time.
    """
    event_us, local_us = F.unix_micros("event_ts"), F.unix_micros("local_ts")
    delay = F.greatest(
        F.lit(-_MAX_DELAY_US), F.least(local_us - event_us, F.lit(_MAX_DELAY_US - 1))
    )
    ordinal = F.least(F.col("ordinal").cast("long"), F.lit(_MAX_ORDINAL))
    in_second = F.pmod(event_us, F.lit(SECOND_US))
    delayed = in_second * F.lit(1 << _DELAY_BITS) + delay + F.lit(_MAX_DELAY_US)
    return delayed * F.lit(1 << _ORDINAL_BITS) + ordinal


def in_touched_minutes(rows: DataFrame, touched: DataFrame, *, by_symbol: bool) -> DataFrame:
    """Keep rows whose series and minute of `event_ts` are touched.

    Args:
        rows: Rows with exchange, symbol and event_ts.
        touched: Exchange, symbol and minute, each once; a null symbol touches all.
        by_symbol: Whether every touched row has a symbol, which makes the comparison much faster.
    """
    is_same = F.col("rows.symbol") == F.col("touched.symbol")
    is_touched = (
        (F.col("rows.exchange") == F.col("touched.exchange"))
        & (minute_of("rows.event_ts") == F.col("touched.minute"))
        & (is_same if by_symbol else F.col("touched.symbol").isNull() | is_same)
    )
    keys = F.broadcast(touched).alias("touched")
    return rows.alias("rows").join(keys, is_touched, "left_semi")


def of_preferred_capture(windows: DataFrame, coverage: DataFrame, time: str) -> DataFrame:
    """Keep windows of the preferred capture of their minute.

    Args:
        windows: Rows with exchange, symbol, data_type, capture and the start of a window.
        coverage: Rows of `gold.coverage` for the minutes of those windows.
        time: Name of the column that holds the start of the window.
    """
    keys = (*SERIES, "data_type", "capture", "minute")
    preferred = F.broadcast(coverage.where("is_preferred").select(*keys))
    timed = windows.withColumn("minute", minute_of(time))
    found = timed.join(preferred, list(keys), "left_semi")
    return found if time == "minute" else found.drop("minute")
