"""What Gold tables share: the order of events, dirty minutes and the preferred capture."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.store.times import minute_of
from tardis_machine.model.time import SECOND_US

SERIES = ("exchange", "symbol")

_DELAY_BITS, _ORDINAL_BITS = 30, 13
_MAX_DELAY_US = 1 << (_DELAY_BITS - 1)
_MAX_ORDINAL = (1 << _ORDINAL_BITS) - 1


def order_in_second(time: str = "event_ts") -> Column:
    """Return a number that orders the events of one second: time, local time, ordinal.

    One 64-bit number, because an aggregate ordered by a struct sorts all rows (four times slower).
    Delays above nine minutes count as nine minutes; they only order events of the same event time.
    """
    event_us, local_us = F.unix_micros(time), F.unix_micros("local_ts")
    delay = F.greatest(
        F.lit(-_MAX_DELAY_US), F.least(local_us - event_us, F.lit(_MAX_DELAY_US - 1))
    )
    ordinal = F.least(F.col("ordinal").cast("long"), F.lit(_MAX_ORDINAL))
    in_second = F.pmod(event_us, F.lit(SECOND_US))
    delayed = in_second * F.lit(1 << _DELAY_BITS) + delay + F.lit(_MAX_DELAY_US)
    return delayed * F.lit(1 << _ORDINAL_BITS) + ordinal


def in_dirty_minutes(rows: DataFrame, dirty: DataFrame, *, by_symbol: bool) -> DataFrame:
    """Keep rows whose series has a dirty minute at `event_ts`.

    Args:
        rows: Rows with exchange, symbol and event_ts.
        dirty: Exchange, symbol and minute, each once; a null symbol means all.
        by_symbol: Whether every dirty row has a symbol, which makes the join much faster.
    """
    is_same = F.col("rows.symbol") == F.col("dirty.symbol")
    is_dirty = (
        (F.col("rows.exchange") == F.col("dirty.exchange"))
        & (minute_of("rows.event_ts") == F.col("dirty.minute"))
        & (is_same if by_symbol else F.col("dirty.symbol").isNull() | is_same)
    )
    keys = F.broadcast(dirty).alias("dirty")
    return rows.alias("rows").join(keys, is_dirty, "left_semi")


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
