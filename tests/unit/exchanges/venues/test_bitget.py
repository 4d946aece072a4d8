"""Bitget: odd messages of both generations, numbers of live books, products of futures."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access, FeedConnection
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.exchanges.venues.bitget.fields import read_subscribe
from tardis_machine.exchanges.versions import feed_of, replay_filters
from tardis_machine.model.errors import BookGapError, MappingError, RequestError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import NOW_US, connect_live, feed_live, map_messages


def plan(exchange: str, *filters: Filter) -> list[FeedConnection]:
    return feed_of(REGISTRY[exchange]).connections(filters, Access())


def arguments(connection: FeedConnection) -> list[list[Any]]:
    return [json.loads(frame)["args"] for frame in connection.frames]


def push(action: str, topic: str, *items: Any) -> Any:
    arg = {"instType": "spot", "topic": topic, "symbol": "AB"}
    return {"action": action, "arg": arg, "data": list(items), "ts": 1}


def book(action: str, previous: int, number: int) -> Any:
    return push(action, "books", {"a": [], "b": [], "ts": "1", "seq": number, "pseq": previous})


def test_live_book_that_misses_an_update_is_a_gap() -> None:
    normalizer = connect_live("bitget", "book_change")
    messages = [book("update", 4, 5), book("snapshot", 0, 7), book("update", 7, 12)]
    records = feed_live(normalizer, *messages)
    assert [record.is_snapshot for record in records] == [True, False]
    with pytest.raises(BookGapError, match="follows 13, not 12"):
        feed_live(normalizer, book("update", 13, 14))


@pytest.mark.parametrize(
    ("data_type", "message"),
    [
        ("trade", push("update", "publicTrade", {"i": "1"})),
        ("book_change", push("update", "books", {"a": [], "ts": "1"})),
        ("book_ticker", push("snapshot", "books1", {"a": []})),
        ("derivative_ticker", push("update", "ticker", {}) | {"ts": None}),
        ("liquidation", push("update", "liquidation", {"symbol": "AB"})),
    ],
)
def test_message_of_another_shape_is_an_error(data_type: str, message: Any) -> None:
    with pytest.raises(MappingError, match="bitget-futures"):
        feed_live(connect_live("bitget-futures", data_type), message)


@pytest.mark.parametrize(
    ("data_type", "channel", "item"),
    [
        ("trade", "trade", {"ts": "1", "price": "1", "size": "1", "side": "buy"}),
        ("derivative_ticker", "ticker", {"instId": "AB", "ts": "1"}),
    ],
)
def test_old_message_of_another_shape_is_an_error(data_type: str, channel: str, item: Any) -> None:
    action = "update" if channel == "trade" else "snapshot"
    message = {"action": action, "arg": {"channel": channel, "instId": "AB"}, "data": [item]}
    with pytest.raises(MappingError, match="bitget-futures"):
        map_messages("bitget-futures", data_type, message)


def test_liquidations_concern_all_symbols() -> None:
    exchange = REGISTRY["bitget-futures"]
    filters = replay_filters(exchange, ["liquidation"], ["BTCUSDT"], NOW_US, NOW_US)
    assert filters == (Filter("liquidation"),)
    line = (
        b'2026-05-01T00:00:00.1000001Z {"action":"update","arg":{"instType":"usdt-futures",'
        b'"topic":"liquidation"},"data":[]}'
    )
    wanted = [Filter("liquidation", ("BTCUSDT",))]
    assert LineFilter(exchange, wanted).select([line]) == [line]


def test_subscriptions_of_both_generations_are_understood() -> None:
    args = [
        {"instType": "SPOT", "channel": "trade", "instId": "BTCUSDT"},
        {"instType": "spot", "topic": "books", "symbol": "ETHUSDT"},
        {"instType": "usdt-futures", "topic": "liquidation"},
    ]
    assert read_subscribe({"op": "subscribe", "args": args}) == [
        Filter("trade", ("BTCUSDT",)),
        Filter("books", ("ETHUSDT",)),
        Filter("liquidation", ()),
    ]
    assert read_subscribe("ping") is None


def test_frames_have_five_arguments_of_the_right_product() -> None:
    symbols = ("ADAUSD", "BTCUSDT", "ETHPERP")
    [connection] = plan("bitget-futures", Filter("books", symbols), Filter("liquidation"))
    first, second = arguments(connection)
    assert [argument["instType"] for argument in first] == [
        *("coin-futures", "usdt-futures", "usdc-futures"),
        *("usdt-futures", "usdc-futures"),
    ]
    assert second == [{"instType": "coin-futures", "topic": "liquidation"}]
    assert connection.pause_seconds == 0.1


def test_feed_refuses_all_symbols_but_of_liquidations() -> None:
    with pytest.raises(RequestError, match="symbols to stream 'books'"):
        plan("bitget", Filter("books"))
