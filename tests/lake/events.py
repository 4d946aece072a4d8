"""Records, envelopes and rows for tests of the lake."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.content import COMPLETE, END_OF_TIME_US, Content
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.series import Origin
from tardis_machine.lake.bronze.rows import ROWS, bronze_batches
from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.records import (
    BookChange,
    BookLevel,
    BookSnapshot,
    BookTicker,
    DerivativeTicker,
    Liquidation,
    OptionSummary,
    SnapshotLevel,
    Trade,
    TradeBar,
)
from tardis_machine.model.time import us_text

NOON_US = 1_709_294_400_000_000
"""2024-03-01 12:00 UTC."""
SECOND_US = 1_000_000
INGEST_US = NOON_US + 3600 * SECOND_US
DELAY_US = 1500


def times(at: float, delay_us: int = DELAY_US) -> dict[str, str]:
    """Return both times of a record, `at` seconds after noon by the venue's clock."""
    event_us = NOON_US + round(at * SECOND_US)
    return {"timestamp": us_text(event_us), "local_timestamp": us_text(event_us + delay_us)}


def trade(at: float, price: float = 100.0, amount: float = 1.0, **fields: Any) -> Trade:
    given = {"exchange": "bitmex", "symbol": "XBTUSD", "side": "buy", **times(at)}
    return Trade(**(given | {"price": price, "amount": amount} | fields))


def liquidation(at: float, amount: float = 1.0, **fields: Any) -> Liquidation:
    given = {"exchange": "bitmex", "symbol": "XBTUSD", "side": "sell", "price": 100.0, **times(at)}
    return Liquidation(**(given | {"amount": amount} | fields))


def book_change(at: float, price: float = 100.0, **fields: Any) -> BookChange:
    given = {
        "exchange": "bitmex",
        "symbol": "XBTUSD",
        "is_snapshot": False,
        "bids": [BookLevel(price - 0.5, 1.0)],
        "asks": [BookLevel(price + 0.5, 2.0)],
        **times(at),
    }
    return BookChange(**(given | fields))


def quote(at: float, bid: float, ask: float, name: str = "quote", **fields: Any) -> BookSnapshot:
    given = {
        "exchange": "bitmex",
        "symbol": "XBTUSD",
        "name": name,
        "depth": 1,
        "interval": 0,
        "bids": [SnapshotLevel(bid, 3.0)],
        "asks": [SnapshotLevel(ask, 1.0)],
        **times(at),
    }
    return BookSnapshot(**(given | fields))


def book_ticker(at: float, bid: float, ask: float, **fields: Any) -> BookTicker:
    given = {
        "exchange": "bitmex",
        "symbol": "XBTUSD",
        "bid_price": bid,
        "bid_amount": 1.0,
        "ask_price": ask,
        "ask_amount": 1.0,
        **times(at),
    }
    return BookTicker(**(given | fields))


def ticker(at: float, rate: float, funding_at: float, **fields: Any) -> DerivativeTicker:
    given = {
        "exchange": "bitmex",
        "symbol": "XBTUSD",
        "funding_rate": rate,
        "funding_timestamp": times(funding_at)["timestamp"],
        **times(at),
    }
    return DerivativeTicker(**(given | fields))


def disconnect(at: float, **fields: Any) -> Disconnect:
    given = {"exchange": "bitmex", "local_timestamp": times(at)["local_timestamp"]}
    return Disconnect(**(given | fields))


def snapshot(at: float, price: float = 100.0, **fields: Any) -> BookSnapshot:
    given = {
        "name": "book_snapshot_3_100ms",
        "depth": 3,
        "interval": 100,
        "bids": [SnapshotLevel(price - 1, 1.0), SnapshotLevel(price - 2, 2.0), SnapshotLevel()],
        "asks": [SnapshotLevel(price + 1, 3.0), SnapshotLevel(), SnapshotLevel()],
    }
    return quote(at, 0, 0, **(given | fields))


def option(at: float, **fields: Any) -> OptionSummary:
    given = {
        "exchange": "deribit",
        "symbol": "BTC-29MAR24-60000-C",
        "option_type": "call",
        "strike_price": 60_000.0,
        "expiration_date": "2024-03-29T08:00:00.000Z",
        "underlying_index": "BTC-29MAR24",
        **times(at),
    }
    return OptionSummary(**(given | fields))


def trade_bar(at: float, price: float = 100.0, **fields: Any) -> TradeBar:
    given = {
        "exchange": "bitmex",
        "symbol": "XBTUSD",
        "name": "trade_bar_10s",
        "interval": 10_000,
        "kind": "time",
        "open": price,
        "high": price + 2,
        "low": price - 2,
        "close": price + 1,
        "volume": 5.0,
        "buy_volume": 3.0,
        "sell_volume": 2.0,
        "trades": 4,
        "vwap": price,
        "open_timestamp": times(at - 9)["timestamp"],
        "close_timestamp": times(at - 1)["timestamp"],
        **times(at),
    }
    return TradeBar(**(given | fields))


def feed_error(at: float, **fields: Any) -> FeedError:
    given = {"exchange": "bitmex", "details": "timeout", "subsequent_errors_count": 2}
    local = {"local_timestamp": times(at)["local_timestamp"]}
    return FeedError(**(given | local | fields))


def of_every_case() -> dict[str, list[NormalizedRecord]]:
    """Return a few records per payload case, full ones and bare ones."""
    greeks = ("delta", "gamma", "vega", "theta", "rho", "mark_iv", "best_bid_iv", "best_ask_iv")
    return {
        "trade": [
            trade(1, id="a"),
            trade(1),
            trade(2, 0.1, 1e9, side="unknown"),
            trade(3, 101.0, exchange="deribit", symbol="BTC-PERPETUAL"),
        ],
        "book_change": [book_change(1), book_change(2, is_snapshot=True, bids=[], asks=[])],
        "book_snapshot": [snapshot(1), snapshot(2, bids=[SnapshotLevel()] * 3)],
        "grouped_book_snapshot": [snapshot(1, name="book_snapshot_3_grouped10_100ms", grouping=10)],
        "quote": [quote(1, 99, 101), quote(2, 98, 102, name="quote_1s", interval=1000)],
        "book_ticker": [book_ticker(1, 99, 101), book_ticker(3, 98, 102)],
        "derivative_ticker": [ticker(1, 0.01, 3600, mark_price=100.5, open_interest=7.0)],
        "liquidation": [liquidation(1, id="b"), liquidation(61, 3.0, side="buy")],
        "option_summary": [option(1), option(2, **dict.fromkeys(greeks, 0.5), option_type="put")],
        "trade_bar": [trade_bar(10), trade_bar(20, kind="tick", vwap=None)],
        "error": [feed_error(1), feed_error(2, details="")],
        "disconnect": [disconnect(1), disconnect(2, symbols=["XBTUSD", "ETHUSD"])],
    }


def encoded(
    records: Sequence[NormalizedRecord],
    *,
    origin: Origin = Origin.REPLAY,
    source: str = "producer",
    ingest_us: int = INGEST_US,
    content: Content = COMPLETE,
) -> list[bytes]:
    """Return the envelopes of one stream."""
    contents = {record.exchange: content for record in records}
    encoder = Encoder(source, origin, contents=contents)
    return [event.data for event in encoder.encode(records, ingest_us)]


def partial(*cases: PayloadCase, state_from_us: int = NOON_US) -> Content:
    """Return how a replay makes records that may lack what came before it, in some cases."""
    return Content(
        state_from_us=state_from_us,
        partial_us=dict.fromkeys(cases, (state_from_us, END_OF_TIME_US)),
    )


def bus_rows(
    spark: SparkSession, envelopes: Sequence[bytes | None], partition: str = "0"
) -> DataFrame:
    """Return envelopes as the rows that a reader delivers."""
    count = len(envelopes)
    columns = {
        "bus": pa.array(["test"] * count, pa.string()),
        "stream": pa.array(["events"] * count, pa.string()),
        "partition": pa.array([partition] * count, pa.string()),
        "position": pa.array([str(number) for number in range(count)], pa.string()),
        "bus_ts": pa.nulls(count, pa.timestamp("us", "UTC")),
        "envelope": pa.array(envelopes, pa.binary()),
    }
    return spark.createDataFrame(pa.table(columns))


def bronze_rows(
    spark: SparkSession, envelopes: Sequence[bytes | None], partition: str = "0"
) -> DataFrame:
    """Return rows of `bronze.events`."""
    return bus_rows(spark, envelopes, partition).mapInArrow(bronze_batches, ROWS.schema)
