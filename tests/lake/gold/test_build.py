"""Silver to Gold: late data corrects it, and a stream ends like one batch over everything."""

import math
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.bronze.series import Origin
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.tables.gold import BARS, GOLD_TABLES
from tests.lake.events import (
    NOON_US,
    SECOND_US,
    book_change,
    book_ticker,
    disconnect,
    encoded,
    liquidation,
    quote,
    ticker,
    trade,
)
from tests.lake.lakes import Lake

pytestmark = pytest.mark.spark

HISTORY = [
    trade(1, 100, 2),
    trade(2.5, 101, 1, side="sell"),
    trade(2.6, 99, 1),
    trade(70, 104, 1),
    trade(400, 110, 5),
    trade(3, 102, 1, exchange="deribit", symbol="BTC-PERPETUAL"),
    book_change(1),
    book_ticker(5, 99, 101),
    book_ticker(6, 98, 102),
    quote(130, 97, 98),
    # What stood at the end of the first minute.
    quote(60, 50, 51, name="quote_1s", interval=1000),
    ticker(10, 0.01, 3600),
    ticker(20, 0.02, 3600),
    liquidation(30, 7),
    disconnect(31),
]
LATE = [
    # Before, between and behind what is there.
    trade(0.5, 90, 1),
    trade(69, 103, 1),
    trade(71, 105, 1),
    trade(4000, 120, 1),
    trade(4, 105, 1, exchange="deribit", symbol="BTC-PERPETUAL"),
    # A finer source of quotes takes over its second, and no other one.
    quote(5.5, 99, 100),
    quote(131, 9, 10, name="quote_1s", interval=1000),
    book_ticker(131, 1, 2),
    ticker(15, 0.5, 3600),
    ticker(25, 0.03, 3600),
    liquidation(31, 1, side="buy"),
    disconnect(71),
]
# A capture with more events of the first minute than the history has.
LIVE = [trade(at, 200 + at, 10) for at in (1, 11, 21, 31, 41, 51)]


def deliveries() -> list[list[bytes]]:
    return [
        encoded(HISTORY),
        encoded(LATE) + encoded(LIVE, origin=Origin.REALTIME, source="live"),
    ]


def gold(lake: Lake) -> dict[str, list[tuple[Any, ...]]]:
    store = Store(lake.spark, lake.root)
    found = {}
    for table in GOLD_TABLES:
        rows = [tuple(map(_rounded, row.values())) for row in store.collect(table).to_pylist()]
        found[table.name] = sorted(rows, key=str)
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.12g}")
    return value


def test_stream_ends_like_one_batch_over_everything(spark: SparkSession, tmp_path: Path) -> None:
    # Spark writes to what may be a store of objects; few rows of a local lake the driver writes.
    stream, batch = Lake(spark, tmp_path / "stream"), Lake(spark, (tmp_path / "batch").as_uri())
    first, second = deliveries()
    stream.deliver(first)
    stream.build()
    assert stream.values("gold.bars", "interval", "open", "close", "trades", "volume") == [
        ("1d", 100.0, 110.0, 5, 10.0),
        ("1d", 102.0, 102.0, 1, 1.0),
        ("1h", 100.0, 110.0, 5, 10.0),
        ("1h", 102.0, 102.0, 1, 1.0),
        ("1m", 100.0, 99.0, 3, 4.0),
        ("1m", 102.0, 102.0, 1, 1.0),
        ("1m", 104.0, 104.0, 1, 1.0),
        ("1m", 110.0, 110.0, 1, 5.0),
        ("1s", 100.0, 100.0, 1, 2.0),
        ("1s", 101.0, 99.0, 2, 2.0),
        ("1s", 102.0, 102.0, 1, 1.0),
        ("1s", 104.0, 104.0, 1, 1.0),
        ("1s", 110.0, 110.0, 1, 5.0),
        ("5m", 100.0, 104.0, 4, 5.0),
        ("5m", 102.0, 102.0, 1, 1.0),
        ("5m", 110.0, 110.0, 1, 5.0),
    ]
    # What was read may be deleted from what the queries stream from.
    stream.delete("bronze.events")
    stream.delete("silver.touched_minutes")
    stream.deliver(second)
    stream.build()
    check_corrected(stream)
    batch.append(first)
    batch.append(second)
    batch.refine()
    batch.build()
    assert gold(stream) == gold(batch)


def check_corrected(lake: Lake) -> None:
    """Check what late data and another capture changed."""
    bitmex = [
        row[1:]
        for row in lake.values("gold.bars", "exchange", "interval", "open", "close", "trades")
        if row[0] == "bitmex" and row[1] in ("1m", "1d")
    ]
    assert bitmex == [
        ("1d", 201.0, 120.0, 11),
        ("1m", 103.0, 105.0, 3),
        ("1m", 110.0, 110.0, 1),
        ("1m", 120.0, 120.0, 1),
        ("1m", 201.0, 251.0, 6),
    ]
    second = F.date_format("second", "mm:ss")
    assert lake.values("gold.quotes_1s", second, "basis", "bid_price", "microprice") == [
        ("00:05", "quotes", 99.0, 99.75),
        ("00:06", "book_tickers", 98.0, 100.0),
        ("00:59", "quotes", 50.0, 50.75),
        ("02:10", "quotes", 97.0, 97.75),
        ("02:11", "book_tickers", 1.0, 1.5),
    ]
    assert lake.values("gold.funding", "funding_rate") == [(0.03,)]
    assert lake.values("gold.liquidations_1m", "buys", "sells", "sell_volume") == [(1, 1, 7.0)]
    assert lake.values("gold.cross_exchange_1m", "market", "venues", "cheapest", "dearest") == [
        ("BTC/USD perpetual", 2, "deribit", "bitmex")
    ]
    preferred = lake.values("gold.coverage", "data_type", "events", "capture", "is_preferred")
    assert ("trade", 6, "live:live", True) in preferred
    assert ("trade", 4, "history", False) in preferred


def test_late_event_needs_nothing_between_it_and_now(lake: Lake) -> None:
    day = 86_400
    received_us = NOON_US + 400 * day * SECOND_US

    def events(*days: float) -> list[bytes]:
        kinds = (trade, book_change, liquidation)
        records = [kind(each * day) for each in days for kind in kinds]
        quotes = [book_ticker(each * day, 99, 101) for each in days]
        tickers = [ticker(each * day, 0.01, (each + 0.1) * day) for each in days]
        return encoded([*records, *quotes, *tickers], ingest_us=received_us)

    lake.deliver(events(0, 150, 365))
    lake.build()
    between = list(Path(lake.root).glob("[sg]*/*/date=2024-07-29/**/*.parquet"))
    assert {file.parts[-3] for file in between} >= {"trades", "quotes_1s", "funding", "coverage"}
    for file in between:
        file.write_bytes(b"no Parquet")
    lake.deliver(events(0.001, 365.001))
    lake.build()
    spoilt = "date <> '2024-07-29'"
    table = Store(lake.spark, lake.root).read(BARS).where(spoilt)
    assert sorted(row.trades for row in table.where("interval = '1d'").collect()) == [2, 2]


def test_disconnect_counts_for_every_series_of_its_exchange(lake: Lake) -> None:
    lake.deliver(encoded([trade(1), trade(1, symbol="ETHUSD"), trade(61), book_change(2)]))
    lake.build()
    lake.deliver(encoded([disconnect(30), disconnect(31, symbols=["ETHUSD"])]))
    lake.build()
    assert lake.values("gold.coverage", "symbol", "data_type", "events", "disconnects") == [
        ("ETHUSD", "trade", 1, 2),
        ("XBTUSD", "book_change", 1, 1),
        ("XBTUSD", "trade", 1, 0),
        ("XBTUSD", "trade", 1, 1),
    ]
    written = version(lake)
    lake.deliver(encoded([trade(1), disconnect(30)]))
    lake.build()
    assert version(lake) == written


def version(lake: Lake) -> list[str]:
    """Return the commits of the Gold tables."""
    return sorted(str(path) for path in Path(lake.root, "gold").glob("*/_delta_log/*.json"))
