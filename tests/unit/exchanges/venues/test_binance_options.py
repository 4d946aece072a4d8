"""Rules of Binance options that their golden files do not show."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.venues.binance.option_summaries import parse_option
from tardis_machine.exchanges.venues.binance.options_feed import (
    connections,
    live_summary_filters,
    unsubscribe,
)
from tardis_machine.exchanges.versions import replay_filters
from tardis_machine.model.errors import MappingError, RequestError
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import parse_us
from tests.unit.exchanges.mapping import NOW_US, connect, feed

OPTIONS = "binance-european-options"
NEW_US = parse_us("2026-02-01T00:00:00.000Z")
SYMBOLS = ("BTC-261225-90000-C", "BTC-261225-95000-C", "BTC-270326-90000-P")


def test_live_open_interest_is_asked_for_once_per_underlying_and_expiry() -> None:
    filters = live_summary_filters(SYMBOLS)
    assert filters[-1] == Filter("optionOpenInterest", ("btcusdt@261225", "btcusdt@270326"))
    market, _ = connections(filters, Access())
    assert [json.loads(frame)["params"] for frame in market.frames] == [
        ["btcusdt@optionMarkPrice"],
        ["btcusdt@optionOpenInterest@261225", "btcusdt@optionOpenInterest@270326"],
    ]


def test_recordings_have_open_interest_by_underlying() -> None:
    filters = replay_filters(REGISTRY[OPTIONS], ["option_summary"], SYMBOLS[:1], NEW_US, NOW_US)
    assert filters[-1] == Filter("optionOpenInterest", ("btcusdt",))


def test_open_interest_without_expiry_is_refused() -> None:
    with pytest.raises(RequestError, match="write btcusdt@261225 instead of 'btcusdt'"):
        connections([Filter("optionOpenInterest", ("btcusdt",))], Access())


def test_there_are_two_addresses_also_under_an_override() -> None:
    filters = [Filter("optionTrade", ("a",)), Filter("optionIndexPrice", ("btcusdt",))]
    access = Access({"WSS_URL_BINANCE_EUROPEAN_OPTIONS": "wss://other.example.com/market/stream"})
    assert [connection.url for connection in connections(filters, access)] == [
        "wss://other.example.com/market/stream",
        "wss://other.example.com/public/stream",
    ]


def test_filters_are_left_by_the_same_streams() -> None:
    [frame] = unsubscribe([Filter("depth20", ("btc-261225-90000-c",))], Access())
    assert json.loads(frame) == {
        "method": "UNSUBSCRIBE",
        "params": ["btc-261225-90000-c@depth20@100ms"],
        "id": 1,
    }


@pytest.mark.parametrize("symbol", ["BTCUSDT", "BTC-261225-90000-X", "BTC-may-90000-C"])
def test_option_with_another_name_is_an_error(symbol: str) -> None:
    with pytest.raises((ValueError, LookupError)):
        parse_option(symbol)


@pytest.mark.parametrize(
    "message",
    [
        {"stream": "a@depth20@100ms", "data": {"s": "A", "E": 1, "b": [], "a": []}},
        {"stream": "a@optionTicker", "data": {"s": "A", "p": "5"}},
        {"stream": "a@optionTrade", "data": {"s": "A", "t": 1, "p": "5", "q": "1"}},
        {"stream": "a@bookTicker", "data": {"s": "A"}},
        {"stream": "a@optionMarkPrice", "data": [{"s": "A", "E": 1}]},
    ],
)
def test_message_of_another_shape_is_an_error(message: Any) -> None:
    names = ("trade", "book_change", "option_summary", "book_ticker")
    with pytest.raises(MappingError, match=OPTIONS):
        feed(connect(OPTIONS, *names, at_us=NEW_US), message)
