"""Minute bars of several venues to the dispersion of one market."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tardis_machine.lake.gold.cross_exchange import dispersion, with_market
from tardis_machine.lake.tables.gold import BARS
from tests.lake.frames import at, frame, values

pytestmark = pytest.mark.spark


def bar(seconds: float, exchange: str, symbol: str, close: float) -> dict[str, Any]:
    return {"exchange": exchange, "symbol": symbol, "open_ts": at(seconds), "close": close}


def test_symbols_of_one_market_have_one_name(spark: SparkSession) -> None:
    symbols = {
        "BTCUSDT": "BTCUSDT",
        "btc-usdt": "BTCUSDT",
        "BTC-USDT-SWAP": "BTCUSDT",
        "BTC-PERPETUAL": "BTC",
        "BTC-PERP": "BTC",
        "XBTUSD": "BTCUSD",
        "PI_XBTUSD": "BTCUSD",
        "PF_ETHUSD": "ETHUSD",
        "PIUSDT": "PIUSDT",
        "BTC_240329": "BTC240329",
    }
    bars = frame(spark, BARS, [bar(0, "x", symbol, 1) for symbol in symbols])
    assert dict(values(bars.transform(with_market), "symbol", "market")) == symbols


def test_venues_of_a_minute_are_compared(spark: SparkSession) -> None:
    bars = [
        bar(0, "bitmex", "XBTUSD", 99.0),
        bar(0, "coinbase", "BTC-USD", 101.0),
        bar(0, "kraken", "XBT/USD", 100.0),
        bar(0, "coinbase", "ETH-USD", 7.0),
        bar(60, "bitmex", "XBTUSD", 99.0),
        bar(120, "bitmex", "XBTUSD", -1.0),
        bar(120, "coinbase", "BTC-USD", 1.0),
    ]
    rows = frame(spark, BARS, bars).transform(with_market).transform(dispersion)
    prices = ("minute", "market", "venues", "mean_price", "min_price", "max_price")
    assert values(rows, *prices, "dispersion_bps", "cheapest", "dearest") == [
        (0.0, "BTCUSD", 3, 100.0, 99.0, 101.0, 200.0, "bitmex", "coinbase"),
        (120.0, "BTCUSD", 2, 0.0, -1.0, 1.0, None, "bitmex", "coinbase"),
    ]
