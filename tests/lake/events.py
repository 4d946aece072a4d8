"""Records, envelopes and rows for tests of the lake."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import Origin
from tardis_machine.lake.ingest import bronze_events
from tardis_machine.model.control import Disconnect, NormalizedRecord
from tardis_machine.model.records import (
    BookChange,
    BookLevel,
    BookSnapshot,
    BookTicker,
    DerivativeTicker,
    Liquidation,
    SnapshotLevel,
    Trade,
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


def encoded(
    records: Sequence[NormalizedRecord],
    *,
    origin: Origin = Origin.REPLAY,
    source: str = "producer",
    ingest_us: int = INGEST_US,
) -> list[bytes]:
    """Return the envelopes of one stream."""
    return [event.data for event in Encoder(source, origin).encode(records, ingest_us)]


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
    return bus_rows(spark, envelopes, partition).transform(bronze_events)
