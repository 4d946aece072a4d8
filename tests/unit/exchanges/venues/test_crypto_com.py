"""Crypto.com: odd messages, subscriptions in both orders, contracts with their indexes."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access, subscription_count
from tardis_machine.exchanges.venues.crypto_com import (
    MAX_SUBSCRIPTIONS,
    answer,
    connections,
    locate,
    read_reversed,
    read_subscribe,
    ticker_filters,
    unsubscribe,
)
from tardis_machine.model.errors import BookGapError, MappingError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import connect_live, feed_live, map_messages


def push(channel: str, subscription: str, *items: Any) -> Any:
    result = {"channel": channel, "subscription": subscription, "instrument_name": "A-PERP"}
    return {"result": result | {"data": list(items)}}


def update(previous: int, number: int) -> Any:
    return push("book.update", "book.A-PERP.50", {"t": 1, "u": number, "pu": previous})


def subscribe(*channels: str) -> Any:
    return {"id": 1, "method": "subscribe", "params": {"channels": list(channels)}}


def test_live_book_that_misses_an_update_is_a_gap() -> None:
    normalizer = connect_live("crypto-com", "book_change")
    snapshot = push("book", "book.A-PERP.50", {"t": 1, "u": 5})
    records = feed_live(normalizer, update(4, 5), snapshot, update(5, 8))
    assert [record.is_snapshot for record in records] == [True, False]
    with pytest.raises(BookGapError, match="follows 9, not 8"):
        feed_live(normalizer, update(9, 10))


def test_message_without_values_changes_nothing() -> None:
    messages = [push(name, f"{name}.A-PERP") for name in ("ticker", "index", "mark", "funding")]
    assert map_messages("crypto-com", ["derivative_ticker", "book_ticker"], *messages) == []


@pytest.mark.parametrize(
    ("data_type", "message"),
    [
        ("trade", push("trade", "trade.A-PERP", {"d": "1", "t": 1, "q": 1, "s": "BUY"})),
        ("book_change", push("book", "book.A-PERP.50", {"bids": []})),
        ("book_change", push("book", "book.A-PERP.50", {"t": 1, "bids": [["1"]]})),
        ("book_ticker", push("ticker", "ticker.A-PERP", {"t": 1, "b": "x"})),
        ("derivative_ticker", push("mark", "mark.A-PERP", {"v": 1})),
    ],
)
def test_message_of_another_shape_is_an_error(data_type: str, message: Any) -> None:
    with pytest.raises(MappingError, match="crypto-com"):
        map_messages("crypto-com", data_type, message)


@pytest.mark.parametrize(
    ("subscription", "located"),
    [
        ("book.BTC_USDT.50", Filter("book", ("BTC_USDT",))),
        ("book.BTC_USDT", Filter("book", ("BTC_USDT",))),
        ("index.BTCUSD-INDEX", Filter("index", ("BTCUSD-INDEX",))),
    ],
)
def test_subscription_names_channel_and_symbol(subscription: str, located: Filter) -> None:
    assert locate(subscription) == located


def test_subscriptions_are_understood_in_both_orders() -> None:
    expected = [Filter("trade", ("BTC_USDT",)), Filter("book", ("BTC_USDT",))]
    assert read_subscribe(subscribe("trade.BTC_USDT", "book.BTC_USDT.50")) == expected
    assert read_subscribe(subscribe("BTC_USDT.trade", "BTC_USDT.book.150")) == expected
    assert read_reversed(subscribe("trade.BTC_USDT")) == [Filter("BTC_USDT", ("trade",))]
    assert read_subscribe({"method": "public/heartbeat"}) is None


def test_contracts_share_a_connection_with_their_indexes() -> None:
    symbols = [f"COIN{number}USD-PERP" for number in range(200)]
    parts = connections(ticker_filters(symbols), Access())
    assert len(parts) > 1
    for part in parts:
        assert subscription_count(part.filters) <= MAX_SUBSCRIPTIONS
        wanted = {entry.channel: set(entry.symbols or ()) for entry in part.filters}
        assert {name.replace("-INDEX", "-PERP") for name in wanted["index"]} == wanted["mark"]


def test_heartbeat_is_answered_with_its_id() -> None:
    reply = answer(b'{"id":7,"method":"public/heartbeat","code":0}')
    assert json.loads(reply or "") == {"id": 7, "method": "public/respond-heartbeat"}
    assert answer(b'{"id":1,"method":"subscribe","code":0}') is None


def test_frame_that_leaves_names_the_depth_too() -> None:
    [frame] = unsubscribe([Filter("book", ("BTC_USDT",))], Access())
    assert json.loads(frame)["params"]["channels"] == ["book.BTC_USDT.50"]
