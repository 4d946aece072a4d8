"""Coinbase: faulty times and sizes, and native subscriptions."""

from typing import Any

import pytest

from tardis_machine.exchanges.venues.coinbase import read_subscribe
from tardis_machine.model.records import BookLevel
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import LOCAL, map_messages

YEAR_ONE = "0001-01-01T00:00:00.000000Z"


def update(time: str | None, product: str = "BTC-USD") -> Any:
    return {"type": "l2update", "product_id": product, "time": time, "changes": [["buy", "1", "2"]]}


def subscribe(*channels: Any, **fields: Any) -> Any:
    return {"type": "subscribe", "channels": list(channels)} | fields


def test_faulty_time_is_replaced_by_that_of_the_same_product() -> None:
    records = map_messages(
        *("coinbase", "book_change"),
        update("2024-03-01T00:00:00.000001Z"),
        update("2024-03-01T00:00:05Z", "ETH-USD"),
        update(YEAR_ONE),
        update(YEAR_ONE, "LTC-USD"),
    )
    assert [(record.symbol, record.timestamp) for record in records] == [
        ("BTC-USD", "2024-03-01T00:00:00.000001Z"),
        ("ETH-USD", "2024-03-01T00:00:05.000000Z"),
        ("BTC-USD", "2024-03-01T00:00:00.000001Z"),
    ]


def test_missing_or_faulty_time_becomes_the_arrival_time() -> None:
    snapshot = {"type": "snapshot", "product_id": "A", "bids": [], "asks": [], "time": YEAR_ONE}
    ticker = {"type": "ticker", "product_id": "A", "time": YEAR_ONE}
    records = map_messages(
        "coinbase", ["book_change", "book_ticker"], snapshot, update(None), ticker
    )
    assert [record.timestamp for record in records] == [LOCAL, LOCAL, LOCAL]


def test_snapshot_skips_sizes_that_are_no_amounts() -> None:
    sizes = ["1", 2, "0", "-1", "0.-5", "", "abc", -3]
    bids = [[str(price), size] for price, size in enumerate(sizes)]
    message = {"type": "snapshot", "product_id": "A", "bids": bids, "asks": []}
    (record,) = map_messages("coinbase", "book_change", message)
    assert record.bids == [
        *(BookLevel(0.0, 1.0), BookLevel(1.0, 2.0)),
        *(BookLevel(2.0, 0.0), BookLevel(5.0, 0.0)),
    ]


@pytest.mark.parametrize(("maker", "taker"), [("sell", "buy"), ("buy", "sell"), (None, "sell")])
def test_trade_has_the_side_of_the_taker(maker: str | None, taker: str) -> None:
    message = {
        "type": "match",
        "product_id": "A",
        "trade_id": 2**53 + 1,
        "side": maker,
        "price": "1",
        "size": "2",
        "time": "2024-03-01T00:00:00Z",
    }
    (record,) = map_messages("coinbase", "trade", message)
    assert (record.side, record.id) == (taker, "9007199254740993")


def test_subscription_uses_the_products_of_its_channel() -> None:
    message = subscribe("matches", {"name": "ticker", "product_ids": ["B"]}, product_ids=["A"])
    assert read_subscribe(message) == [
        *(Filter("match", ("A",)), Filter("last_match", ("A",)), Filter("ticker", ("B",))),
    ]


@pytest.mark.parametrize("name", ["level2", "level2_batch"])
def test_books_are_snapshots_and_updates(name: str) -> None:
    assert read_subscribe(subscribe(name)) == [Filter("snapshot"), Filter("l2update")]


def test_full_channel_is_all_messages_of_orders() -> None:
    filters = read_subscribe(subscribe("full", product_ids=["A"])) or []
    names = ["received", "open", "done", "match", "change", "full_snapshot"]
    assert [entry.channel for entry in filters] == names


def test_unknown_channel_spoils_the_message() -> None:
    with pytest.raises(KeyError):
        read_subscribe(subscribe("ticker", "heartbeat"))


def test_other_types_are_no_subscription() -> None:
    assert read_subscribe({"type": "unsubscribe", "channels": ["ticker"]}) is None
