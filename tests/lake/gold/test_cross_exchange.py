"""Minute bars of several venues to the dispersion of one market."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tardis_machine.lake.arrow import arrow_schema
from tardis_machine.lake.gold.cross_exchange import dispersion
from tardis_machine.lake.gold.instruments import with_market, with_validity, with_worth
from tardis_machine.lake.silver.instruments import ALWAYS, instrument_rows, ruled
from tardis_machine.lake.tables.gold import BARS
from tardis_machine.lake.tables.instruments import INSTRUMENTS
from tardis_machine.lake.tables.silver import TRADES
from tests.lake.frames import NOON, at, event, frame, values

pytestmark = pytest.mark.spark

SERIES = {
    ("bitmex", "XBTUSD"),
    ("bitmex", "ETHUSD"),
    ("deribit", "BTC-PERPETUAL"),
    ("deribit", "BTC-29MAR24"),
    ("deribit", "BTC-29MAR24-62000-P"),
    ("binance-delivery", "BTCUSD_PERP"),
    ("binance-futures", "1000SHIBUSDT"),
    ("okex-swap", "SHIB-USDT-SWAP"),
    ("coinbase", "BTC-USD"),
    ("kraken", "XBT/USD"),
    ("nowhere", "BTC-USD"),
}


@pytest.fixture(scope="module")
def instruments(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(with_validity(instrument_rows(ruled(SERIES))))


def bar(seconds: float, exchange: str, symbol: str, close: float) -> dict[str, Any]:
    return {"exchange": exchange, "symbol": symbol, "open_ts": at(seconds), "close": close}


def test_instruments_of_one_market_have_one_name(
    spark: SparkSession, instruments: DataFrame
) -> None:
    bars = frame(spark, BARS, [bar(0, *series, 1) for series in SERIES])
    assert values(bars.transform(with_market, instruments), "market", "exchange") == [
        ("BTC/USD future 2024-03-29", "deribit"),
        ("BTC/USD perpetual", "binance-delivery"),
        ("BTC/USD perpetual", "bitmex"),
        ("BTC/USD perpetual", "deribit"),
        ("BTC/USD spot", "coinbase"),
        ("BTC/USD spot", "kraken"),
        ("ETH/USD perpetual", "bitmex"),
        ("SHIB/USDT perpetual", "binance-futures"),
        ("SHIB/USDT perpetual", "okex-swap"),
    ]


def test_venues_of_a_minute_are_compared(spark: SparkSession, instruments: DataFrame) -> None:
    bars = [
        bar(0, "bitmex", "XBTUSD", 99.0),
        bar(0, "deribit", "BTC-PERPETUAL", 101.0),
        bar(0, "binance-delivery", "BTCUSD_PERP", 100.0),
        bar(0, "coinbase", "BTC-USD", 7.0),
        bar(60, "bitmex", "XBTUSD", 99.0),
        bar(120, "bitmex", "XBTUSD", -1.0),
        bar(120, "deribit", "BTC-PERPETUAL", 1.0),
        bar(0, "binance-futures", "1000SHIBUSDT", 8.0),
        bar(0, "okex-swap", "SHIB-USDT-SWAP", 0.008),
    ]
    rows = frame(spark, BARS, bars).transform(with_market, instruments).transform(dispersion)
    prices = ("minute", "market", "venues", "mean_price", "min_price", "max_price")
    assert values(rows, *prices, "dispersion_bps", "cheapest", "dearest") == [
        (0.0, "BTC/USD perpetual", 3, 100.0, 99.0, 101.0, 200.0, "bitmex", "deribit"),
        (0.0, "SHIB/USDT perpetual", 2, 0.008, 0.008, 0.008, 0.0, "binance-futures", "okex-swap"),
        (120.0, "BTC/USD perpetual", 2, 0.0, -1.0, 1.0, None, "bitmex", "deribit"),
    ]


def test_worth_is_in_quote_currency(spark: SparkSession, instruments: DataFrame) -> None:
    def trade(exchange: str, symbol: str) -> dict[str, Any]:
        return event(1, price=50_000.0, amount=2.0) | {"exchange": exchange, "symbol": symbol}

    trades = frame(spark, TRADES, [trade(*series) for series in SERIES])
    worth = trades.transform(with_worth, instruments)
    assert values(worth, "exchange", "symbol", "worth") == [
        ("binance-delivery", "BTCUSD_PERP", 200.0),
        ("binance-futures", "1000SHIBUSDT", 100_000.0),
        ("bitmex", "ETHUSD", None),
        ("bitmex", "XBTUSD", 2.0),
        ("coinbase", "BTC-USD", 100_000.0),
        ("deribit", "BTC-29MAR24", 2.0),
        ("deribit", "BTC-29MAR24-62000-P", None),
        ("deribit", "BTC-PERPETUAL", 2.0),
        ("kraken", "XBT/USD", 100_000.0),
        ("nowhere", "BTC-USD", 100_000.0),
        ("okex-swap", "SHIB-USDT-SWAP", None),
    ]


def test_row_of_its_time_says_what_an_execution_is_worth(spark: SparkSession) -> None:
    sizes = ((NOON, 10.0), (ALWAYS, 1.0), (at(60), None))
    rows = [
        {"exchange": "bitmex", "symbol": "XBTUSD", "valid_from": since, "contract_size": size}
        | {"is_inverse": False, "kind": "future", "base": "BTC", "quote": "USD"}
        for since, size in sizes
    ]
    table = with_validity(pa.Table.from_pylist(rows, schema=arrow_schema(INSTRUMENTS)))
    assert table["valid_until"].to_pylist() == [NOON, at(60), None]
    instruments = spark.createDataFrame(table)
    trades = [event(seconds, price=2.0, amount=3.0) for seconds in (-1, 0, 59, 60)]
    worth = frame(spark, TRADES, trades).transform(with_worth, instruments)
    assert values(worth, "event_ts", "worth") == [
        (-1.0, 6.0),
        (0.0, 60.0),
        (59.0, 60.0),
        (60.0, None),
    ]
    bars = frame(spark, BARS, [bar(0, "bitmex", "XBTUSD", 1)])
    assert len(values(bars.transform(with_market, instruments), "market")) == 1
