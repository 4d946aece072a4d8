"""Rules of hyperliquid that its golden files do not show."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.venues.hyperliquid import FORMAT
from tardis_machine.exchanges.venues.hyperliquid.coins import native_coin
from tardis_machine.exchanges.venues.hyperliquid.feed import (
    connections,
    read_live_subscribe,
    read_subscribe,
)
from tardis_machine.exchanges.venues.hyperliquid.mappers import read_symbols
from tardis_machine.model.errors import MappingError, RequestError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import map_messages


@pytest.mark.parametrize(
    ("symbol", "native"),
    [
        ("KPEPE", "kPEPE"),
        ("kPEPE", "kPEPE"),
        ("KAS", "KAS"),
        ("XYZ:TSLA", "xyz:TSLA"),
        ("btc", "btc"),
        ("@107", "@107"),
        ("PURR/USDC", "PURR/USDC"),
    ],
)
def test_symbol_is_asked_for_in_its_own_case(symbol: str, native: str) -> None:
    assert native_coin(symbol) == native


@pytest.mark.parametrize("levels", [[], [[]], [[], [], []], None])
def test_book_without_two_sides_is_an_error(levels: Any) -> None:
    data = {"coin": "BTC", "time": 1, "levels": levels}
    with pytest.raises(MappingError, match="hyperliquid"):
        map_messages("hyperliquid", "book_change", {"channel": "l2Book", "data": data})


@pytest.mark.parametrize(
    ("message", "tag"),
    [
        ({"channel": "l2Book", "data": {"coin": "BTC"}}, "l2Book"),
        ({"channel": "l2Book", "data": {"fast": True}}, "fastBook"),
        ({"channel": "l2Book", "data": {"fast": False}}, "l2Book"),
        ({"channel": "fastBook", "data": {}}, "fastBook"),
        ({"channel": "error", "data": "text"}, "error"),
        ({"method": "pong"}, None),
    ],
)
def test_fast_book_is_told_by_channel_or_flag(message: Any, tag: str | None) -> None:
    assert FORMAT.tag.read(json.dumps(message).encode()) == tag


def test_fast_book_is_subscribed_by_a_flag() -> None:
    [connection] = connections([Filter("fastBook", ("BTC",)), Filter("bbo", ("BTC",))], Access())
    frames = [json.loads(frame) for frame in connection.frames]
    assert [frame["subscription"] for frame in frames] == [
        {"coin": "BTC", "type": "bbo"},
        {"coin": "BTC", "type": "l2Book", "fast": True},
    ]
    assert [read_live_subscribe(frame) for frame in frames] == [
        [Filter("bbo", ("BTC",))],
        [Filter("fastBook", ("BTC",))],
    ]


def test_channel_without_coins_is_refused() -> None:
    with pytest.raises(RequestError, match="hyperliquid requires"):
        connections([Filter("trades")], Access())


def test_subscription_may_be_flat() -> None:
    assert read_subscribe({"method": "subscribe", "type": "trades", "coin": "BTC"}) == [
        Filter("trades", ("BTC",))
    ]
    everything = {"method": "subscribe", "subscription": {"type": "allMids"}}
    assert read_live_subscribe(everything) == [Filter("allMids")]


def test_message_is_about_its_coins() -> None:
    trades = {"channel": "trades", "data": [{"coin": "A"}, {"coin": "B"}, {"coin": "A"}]}
    assert read_symbols(json.dumps(trades).encode()) == ("A", "B")
    assert read_symbols(b'{"channel":"bbo","data":{"coin":"A"}}') == ("A",)
    assert read_symbols(b'{"channel":"error","data":"no"}') == ()
