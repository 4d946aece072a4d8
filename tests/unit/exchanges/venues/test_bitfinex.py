"""Rules of the bitfinex family that its golden files do not show."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.exchanges.venues.bitfinex.channels import FORMAT, ChannelTag, locate
from tardis_machine.exchanges.venues.bitfinex.feed import (
    MAX_SUBSCRIPTIONS,
    connections,
    read_subscribe,
)
from tardis_machine.exchanges.versions import subscribe_readers
from tardis_machine.model.errors import MappingError, RequestError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import NOW_US, connect, feed, line, map_messages

TIME_MS = 1_709_251_200_000


def subscribed(channel: str, number: int, **fields: Any) -> dict[str, Any]:
    return {"event": "subscribed", "channel": channel, "chanId": number} | fields


def trade(number: int, *suffix: str) -> list[Any]:
    return [number, "te", [1, TIME_MS, 1, 2], 3, TIME_MS, *suffix]


def test_number_may_stand_for_something_else_later() -> None:
    normalizer = connect("bitfinex", "trade")
    messages = [subscribed("trades", 7, pair="A"), trade(7), subscribed("trades", 7, pair="B")]
    records = feed(normalizer, *messages, trade(7), trade(8))
    assert [record.symbol for record in records] == ["A", "B"]


def test_numbers_are_known_to_the_one_who_takes_over() -> None:
    before, after = connect("bitfinex", "trade"), connect("bitfinex", "trade", "book_ticker")
    assert feed(before, subscribed("trades", 7, pair="A")) == []
    after.take_over(before)
    assert [record.symbol for record in feed(after, trade(7))] == ["A"]


@pytest.mark.parametrize(
    "message",
    [
        [7, "te", 5, 3, TIME_MS, "trades", "A"],
        [7, "te", [1], 3, TIME_MS, "trades", "A"],
        [7, [1, 2], 3, TIME_MS, "book", "A"],
        [7, [1, 2, 3, 4], 3, TIME_MS, "book", "A"],
        [7, [[1, 2, 3]], 3, None, "book", "A"],
        [7, [1, 2], 3, TIME_MS, "ticker", "A"],
    ],
)
def test_array_of_another_shape_is_an_error(message: Any) -> None:
    with pytest.raises(MappingError, match="bitfinex"):
        map_messages("bitfinex", ["trade", "book_change", "book_ticker"], message)


@pytest.mark.parametrize(
    ("event", "tag"),
    [
        (subscribed("book", 7, pair="A", prec="P0"), "book,A"),
        (subscribed("book", 7, pair="A", prec="R0"), "raw_book,A"),
        (subscribed("book", 7, pair="A", prec="P3"), None),
        (subscribed("ticker", 7, currency="A"), None),
        (subscribed("status", 7, key="deriv:tA:B"), "status,A:B"),
        (subscribed("status", 7, key="liq:global"), "liquidations,global"),
        ({"event": "info", "version": 2}, None),
    ],
)
def test_acknowledgement_announces_channel_and_symbol(event: Any, tag: str | None) -> None:
    announced = ChannelTag().announced(json.dumps(event).encode())
    assert announced == (None if tag is None else ("#7", tag))


def test_acknowledgement_belongs_to_what_it_announces() -> None:
    wanted = LineFilter(REGISTRY["bitfinex"], [Filter("trades", ("A",))])
    lines = [
        line(subscribed("trades", 7, pair="A")),
        line(subscribed("trades", 8, pair="B")),
        line(trade(7)),
        line(trade(8)),
        line([7, "hb", 3, TIME_MS]),
    ]
    assert wanted.select(lines) == [lines[0], lines[2]]
    assert locate("liquidations,global") == Filter("liquidations")


def test_configuration_comes_first_and_liquidations_once() -> None:
    filters = [Filter("liquidations"), Filter("ticker", ("BTCF0:USTF0",))]
    [connection] = connections("bitfinex-derivatives", filters, Access())
    assert json.loads(connection.opening[0]) == {"event": "conf", "flags": 98_304}
    assert [json.loads(frame) for frame in connection.frames] == [
        {"event": "subscribe", "channel": "status", "key": "liq:global"},
        {"event": "subscribe", "channel": "ticker", "symbol": "tBTCF0:USTF0"},
    ]


def test_many_symbols_are_spread_over_connections() -> None:
    symbols = tuple(f"A{number:02}USD" for number in range(20))
    parts = connections("bitfinex", [Filter("book", symbols), Filter("trades", symbols)], Access())
    assert [len(part.frames) for part in parts] == [24, 16]
    assert all(len(part.frames) <= MAX_SUBSCRIPTIONS for part in parts)


def test_channel_without_symbols_is_refused() -> None:
    with pytest.raises(RequestError, match="bitfinex requires"):
        connections("bitfinex", [Filter("trades")], Access())


def test_native_subscription_is_read_as_the_venue_does() -> None:
    raw = {"event": "subscribe", "channel": "book", "symbol": "tBTCUSD", "prec": "R0"}
    assert read_subscribe(raw) == [Filter("raw_book", ("BTCUSD",))]
    assert read_subscribe({"event": "conf", "flags": 1}) is None


def test_native_replay_brings_the_whole_feed() -> None:
    [reader] = subscribe_readers(REGISTRY["bitfinex"], 0, NOW_US)
    assert reader is FORMAT.read_subscribe
    assert reader({"event": "subscribe", "channel": "trades", "symbol": "tBTCUSD"}) == []
