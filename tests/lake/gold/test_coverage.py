"""Events to coverage: what each capture holds of a minute, and which one is preferred."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tardis_machine.lake.gold.coverage import coverage_rows, events_of
from tardis_machine.lake.gold.windows import in_dirty_minutes, of_preferred_capture
from tardis_machine.lake.tables.gold import COVERAGE
from tardis_machine.lake.tables.silver import CONTROL_EVENTS, QUOTES, TRADES
from tests.lake.frames import at, event, frame, values

pytestmark = pytest.mark.spark


def lost(seconds: float, **columns: Any) -> dict[str, Any]:
    return event(seconds, delay=0, payload_case="disconnect") | columns


def test_minutes_say_how_complete_each_capture_is(spark: SparkSession) -> None:
    trades = [event(at) for at in (1, 1.5, 2, 59.9)]
    trades += [event(at, capture="live:a") for at in (1, 2, 3, 4, 5)]
    trades += [event(61), event(62, capture="live:a"), event(0, symbol="ETHUSD")]
    # However many events it has, they may lack what came before.
    trades += [event(at, capture="partial:2024") for at in (61, 62, 63)]
    own = "recorded:box-7"
    trades += [event(61, capture=capture) for capture in (own, f"partial:2024-03:{own}")]
    quotes = [event(1, name="quote_1s"), event(1, name="quote")]
    events = (
        frame(spark, TRADES, trades)
        .transform(events_of, TRADES)
        .unionByName(frame(spark, QUOTES, quotes).transform(events_of, QUOTES))
    )
    control = [
        lost(10),
        lost(20, symbols=["XBTUSD"]),
        lost(70),
        lost(30, capture="live:a", symbols=["ETHUSD"]),
        lost(30, exchange="deribit"),
        *(lost(at, capture=own) for at in (80, 81, 82)),
        event(5, payload_case="error"),
    ]
    rows = coverage_rows(events, frame(spark, CONTROL_EVENTS, control))
    counts = ("events", "silent_seconds", "disconnects", "is_preferred")
    assert values(rows, "symbol", "data_type", "minute", "capture", *counts) == [
        ("ETHUSD", "trade", 0.0, "history", 1, 59, 1, True),
        ("XBTUSD", "quote", 0.0, "history", 1, 59, 2, True),
        ("XBTUSD", "quote_1s", 0.0, "history", 1, 59, 2, True),
        ("XBTUSD", "trade", 0.0, "history", 4, 57, 2, False),
        ("XBTUSD", "trade", 0.0, "live:a", 5, 55, 0, True),
        ("XBTUSD", "trade", 60.0, "history", 1, 59, 1, True),
        ("XBTUSD", "trade", 60.0, "live:a", 1, 59, 0, False),
        ("XBTUSD", "trade", 60.0, "partial:2024", 3, 57, 1, False),
        ("XBTUSD", "trade", 60.0, f"partial:2024-03:{own}", 1, 59, 3, False),
        ("XBTUSD", "trade", 60.0, own, 1, 59, 3, False),
    ]
    ends = values(rows.where("events = 4"), "first_ts", "last_ts")
    assert ends == [(1.0, 59.9)]


def test_windows_of_the_preferred_capture_remain(spark: SparkSession) -> None:
    same = {"exchange": "bitmex", "symbol": "XBTUSD", "data_type": "trade"}
    covered = [
        same | {"minute": at(minute), "capture": capture, "is_preferred": capture == best}
        for minute, best in ((0, "live:a"), (60, "history"))
        for capture in ("history", "live:a")
    ]
    windows = spark.createDataFrame(
        [
            ("bitmex", "XBTUSD", "trade", capture, at(second))
            for capture in ("history", "live:a")
            for second in (1, 59, 60)
        ],
        "exchange string, symbol string, data_type string, capture string, open_ts timestamp",
    )
    rows = of_preferred_capture(windows, frame(spark, COVERAGE, covered), "open_ts")
    assert values(rows, "open_ts", "capture") == [
        (1.0, "live:a"),
        (59.0, "live:a"),
        (60.0, "history"),
    ]


@pytest.mark.parametrize("by_symbol", [True, False])
def test_rows_of_dirty_minutes_remain(spark: SparkSession, *, by_symbol: bool) -> None:
    whole = [] if by_symbol else [("deribit", None, at(0))]
    dirty = spark.createDataFrame(
        [("bitmex", "XBTUSD", at(60)), *whole],
        "exchange string, symbol string, minute timestamp",
    )
    rows = [
        event(59.9),
        event(60),
        event(119.9),
        event(61, symbol="ETHUSD"),
        event(1, exchange="deribit"),
    ]
    kept = in_dirty_minutes(frame(spark, TRADES, rows), dirty, by_symbol=by_symbol)
    of_deribit = [] if by_symbol else [("deribit", 1.0)]
    assert values(kept, "exchange", "event_ts") == [
        ("bitmex", 119.9),
        ("bitmex", 60.0),
        *of_deribit,
    ]
