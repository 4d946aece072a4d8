"""Dirty minutes: which time to read again, and which series."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tardis_machine.lake.gold.dirty_minutes import DirtyMinutes, collect_dirty
from tardis_machine.lake.store.times import MAX_SPANS, Times, joined, whole_days
from tardis_machine.lake.tables.silver import TOUCHED_MINUTES
from tardis_machine.model.time import DAY_US, MINUTE_US
from tests.lake.events import NOON_US
from tests.lake.frames import at, frame, values

pytestmark = pytest.mark.spark


def minutes(case: str, *numbers: int, symbol: str = "XBTUSD") -> list[dict[str, object]]:
    series = {"payload_case": case, "exchange": "bitmex", "symbol": symbol}
    return [series | {"minute": at(60 * number)} for number in numbers]


def span(first: int, last: int) -> Times:
    return Times(NOON_US + first * MINUTE_US, NOON_US + (last + 1) * MINUTE_US - 1)


def test_minutes_are_kept_once_and_spanned_by_day(spark: SparkSession) -> None:
    tomorrow = 24 * 60
    rows = [
        *minutes("trade", 0, 5, 5, tomorrow),
        *minutes("trade", 2, symbol="ETHUSD"),
        *minutes("quote", 7),
        *minutes("disconnect", 9, symbol=""),
    ]
    dirty = collect_dirty(frame(spark, TOUCHED_MINUTES, rows))
    assert dirty.times("trade") == [span(0, 5), span(tomorrow, tomorrow)]
    assert dirty.times("trade", "quote") == [span(0, 5), span(7, 7), span(tomorrow, tomorrow)]
    assert dirty.has("quote", "liquidation")
    assert not dirty.has("liquidation")
    assert values(dirty.of(spark, "trade", "disconnect"), "minute", "symbol") == [
        (0.0, "XBTUSD"),
        (120.0, "ETHUSD"),
        (300.0, "XBTUSD"),
        (540.0, None),
        (86400.0, "XBTUSD"),
    ]


def test_many_days_are_joined_where_they_are_closest() -> None:
    days = [Times(day * DAY_US, day * DAY_US + MINUTE_US - 1) for day in range(MAX_SPANS)]
    late = Times(-365 * DAY_US, -364 * DAY_US)
    dirty = DirtyMinutes(pa.table({}), {"trade": [*days, late], "quote": [days[3]]})
    found = dirty.times("trade", "quote")
    assert len(found) == MAX_SPANS
    assert found[:2] == [late, Times(0, DAY_US + MINUTE_US - 1)]
    assert found[2:] == days[2:]


def test_spans_that_touch_are_joined() -> None:
    assert joined([]) == []
    assert joined([span(7, 9), span(0, 2), span(1, 4), span(5, 5)]) == [span(0, 5), span(7, 9)]


def test_whole_days_hold_their_last_microsecond() -> None:
    midnight = NOON_US - DAY_US // 2
    assert whole_days(span(0, 5)) == Times(midnight, midnight + DAY_US - 1)
