"""Trades to bars: the first and last price by event time, sums, and longer bars from shorter."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.bars import (
    finished_bars,
    in_dirty_windows,
    longer_bars,
    second_bars,
)
from tardis_machine.lake.tables.gold import BARS
from tardis_machine.lake.tables.silver import TRADES
from tests.lake.frames import at, event, frame, values

pytestmark = pytest.mark.spark


def trade(seconds: float, price: float, amount: float = 1.0, **columns: Any) -> dict[str, Any]:
    return event(seconds, side="buy") | {"price": price, "amount": amount} | columns


def with_worth(trades: DataFrame) -> DataFrame:
    """Return trades of contracts that are worth 10 each."""
    return trades.withColumn("worth", F.col("amount") * 10)


def bar(seconds: float, interval: str = "1m", **columns: Any) -> dict[str, Any]:
    prices = ("open", "high", "low", "close", "volume", "notional", "vwap")
    numbers = dict.fromkeys(prices, 1.0)
    start = {"exchange": "bitmex", "symbol": "XBTUSD", "interval": interval, "open_ts": at(seconds)}
    return start | numbers | {"buy_volume": 1.0, "sell_volume": 0.0, "trades": 1} | columns


def test_trades_of_a_second_become_one_bar_per_capture(spark: SparkSession) -> None:
    trades = [
        trade(1.5, 103, 2),
        trade(1.0, 100, 1),
        trade(1.2, 107, 3, side="sell"),
        trade(1.9, 99, 4, side="unknown"),
        trade(2.0, 98),
        trade(-0.5, 97),
        trade(1.4, 500, capture="live:a"),
        trade(1.4, 600, symbol="ETHUSD"),
    ]
    rows = frame(spark, TRADES, trades).transform(with_worth).transform(second_bars)
    prices = values(rows, "open_ts", "symbol", "capture", "open", "high", "low", "close", "trades")
    assert prices == [
        (-1.0, "XBTUSD", "history", 97.0, 97.0, 97.0, 97.0, 1),
        (1.0, "ETHUSD", "history", 600.0, 600.0, 600.0, 600.0, 1),
        (1.0, "XBTUSD", "history", 100.0, 107.0, 99.0, 99.0, 4),
        (1.0, "XBTUSD", "live:a", 500.0, 500.0, 500.0, 500.0, 1),
        (2.0, "XBTUSD", "history", 98.0, 98.0, 98.0, 98.0, 1),
    ]
    sums = values(rows.where("trades = 4"), "volume", "buy_volume", "sell_volume", "notional")
    assert sums == [(10.0, 3.0, 3.0, 100.0)]
    assert values(rows.where("trades = 4").transform(longer_bars, "1m"), "weighted") == [
        (100.0 + 206.0 + 321.0 + 396.0,)
    ]


def test_equal_event_times_are_ordered_by_arrival_then_ordinal(spark: SparkSession) -> None:
    trades = [
        trade(1, 3, local_ts=at(1.2), ordinal=0),
        trade(1, 1, local_ts=at(1.1), ordinal=0),
        trade(1, 4, local_ts=at(1.2), ordinal=1),
        trade(1, 2, local_ts=at(1.1), ordinal=1),
    ]
    rows = frame(spark, TRADES, trades).transform(with_worth).transform(second_bars)
    assert values(rows, "open", "close") == [(1.0, 4.0)]


def test_bars_join_to_every_longer_interval(spark: SparkSession) -> None:
    minutes = [
        bar(0, open=10.0, close=11.0, high=15.0, low=9.0, volume=2.0, vwap=10.0),
        bar(60, open=11.0, close=12.0, high=13.0, low=8.0, volume=1.0, vwap=12.0),
        bar(360, open=12.0, close=7.0, high=12.0, low=7.0, volume=0.0, vwap=None, trades=5),
        bar(3600, open=5.0, close=6.0, high=6.0, low=5.0),
    ]
    rows = frame(spark, BARS, minutes).transform(longer_bars, "5m", "1h", "1d")
    columns = ("interval", "open_ts", "open", "high", "low", "close", "vwap", "trades")
    assert values(rows.transform(finished_bars), *columns) == [
        ("1d", -43200.0, 10.0, 15.0, 5.0, 6.0, 33 / 4, 8),
        ("1h", 0.0, 10.0, 15.0, 7.0, 7.0, 32 / 3, 7),
        ("1h", 3600.0, 5.0, 6.0, 5.0, 6.0, 1.0, 1),
        ("5m", 0.0, 10.0, 15.0, 8.0, 12.0, 32 / 3, 2),
        ("5m", 300.0, 12.0, 12.0, 7.0, 7.0, None, 5),
        ("5m", 3600.0, 5.0, 6.0, 5.0, 6.0, 1.0, 1),
    ]


def test_bars_are_of_dirty_windows_of_their_series(spark: SparkSession) -> None:
    bars = [
        bar(0),
        bar(1, "1s"),
        bar(60),
        bar(0, symbol="ETHUSD"),
        bar(86400),
        bar(-43200, "1d"),
    ]
    dirty = spark.createDataFrame(
        [("bitmex", "XBTUSD", at(0)), ("bitmex", "XBTUSD", at(120))],
        "exchange string, symbol string, minute timestamp",
    )
    of_minute = frame(spark, BARS, bars).transform(in_dirty_windows, dirty, "1m")
    assert values(of_minute, "symbol", "open_ts") == [("XBTUSD", 0.0), ("XBTUSD", 1.0)]
    of_day = frame(spark, BARS, bars).transform(in_dirty_windows, dirty, "1d")
    assert values(of_day, "symbol", "open_ts") == [
        ("XBTUSD", -43200.0),
        ("XBTUSD", 0.0),
        ("XBTUSD", 1.0),
        ("XBTUSD", 60.0),
    ]
