"""Kraken: odd messages of both formats, filters across their switch, and subscriptions."""

import json
from typing import Any

import pytest
from msgspec import UNSET

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.exchanges.venues.kraken import v1
from tardis_machine.exchanges.venues.kraken.feed import connections, read_subscribe
from tardis_machine.exchanges.versions import subscribe_readers
from tardis_machine.model.errors import MappingError, RequestError
from tardis_machine.model.records import BookLevel
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import parse_us
from tests.unit.exchanges.mapping import LOCAL, NOW_US, connect, feed, map_messages

SWITCH_US = parse_us("2026-07-10T00:00:00.000Z")
LEVEL = ["61000.1", "2", "1709251200.000001"]
OTHER = ["61000.2", "3", "1709251200.000002"]
BUY = {"symbol": "BTC/USD", "side": "buy", "price": 1, "qty": 2, "trade_id": 3}
TIME = "2026-08-01T00:00:00.000001Z"


def map_v2(data_type: str, message: Any) -> list[Any]:
    return feed(connect("kraken", data_type, at_us=SWITCH_US), message)


def update(channel: str, *items: Any) -> Any:
    return {"channel": channel, "type": "update", "data": list(items)}


def spread(*values: Any) -> Any:
    return [1, list(values), "spread", "XBT/USD"]


@pytest.mark.parametrize("key", ["as", "bs"])
def test_whole_book_is_named_by_the_fourth_item(key: str) -> None:
    message = [1, {key: [LEVEL]}, None, "book-10", "XBT/USD"]
    (record,) = map_messages("kraken", "book_change", message)
    assert (record.symbol, record.is_snapshot) == ("book-10", True)
    assert [*record.bids, *record.asks] == [BookLevel(61000.1, 2.0)]


@pytest.mark.parametrize(
    "payload",
    [
        [{"a": [LEVEL]}, {"b": [OTHER]}],
        [{"b": [OTHER]}, {"a": [LEVEL]}],
        [{"a": [LEVEL], "b": [OTHER]}],
        [{"a": [LEVEL], "b": [OTHER]}, None],
    ],
)
def test_changed_sides_are_found_wherever_they_are(payload: list[Any]) -> None:
    message = [1, *payload, "book-10", "XBT/USD"]
    (record,) = map_messages("kraken", "book_change", message)
    assert (record.symbol, record.is_snapshot) == ("XBT/USD", False)
    assert (record.bids, record.asks) == ([BookLevel(61000.2, 3.0)], [BookLevel(61000.1, 2.0)])
    assert record.timestamp == "2024-03-01T00:00:00.000002Z"


def test_change_without_levels_has_the_time_of_its_arrival() -> None:
    (record,) = map_messages("kraken", "book_change", [1, {"a": []}, "book-10", "XBT/USD"])
    assert (record.bids, record.asks, record.timestamp) == ([], [], LOCAL)


def test_values_of_a_spread_that_are_no_numbers_are_left_out() -> None:
    (record,) = map_messages("kraken", "book_ticker", spread("", None, "1709251200", "NaN", 2))
    assert record.ask_amount == 2
    assert (record.bid_price, record.bid_amount, record.ask_price) == (UNSET, UNSET, UNSET)


def test_channel_whose_name_only_starts_alike_is_another() -> None:
    messages = [[1, "no data", name, "XBT/USD"] for name in ("trades", "spread-1", "ohlc-5")]
    assert map_messages("kraken", ["trade", "book_change", "book_ticker"], *messages) == []


@pytest.mark.parametrize(
    ("data_type", "message"),
    [
        ("trade", [1, [["61000", "1"]], "trade", "XBT/USD"]),
        ("trade", [1, [["much", "1", "1709251200", "b"]], "trade", "XBT/USD"]),
        ("book_change", [1, {"a": [["61000", "1"]]}, "book-10", "XBT/USD"]),
        ("book_change", [1, [LEVEL], "book-10", "XBT/USD"]),
        ("book_ticker", spread("61000", "61001")),
    ],
)
def test_array_of_another_shape_is_an_error(data_type: str, message: Any) -> None:
    with pytest.raises(MappingError, match="kraken"):
        map_messages("kraken", data_type, message)


@pytest.mark.parametrize(
    ("data_type", "message"),
    [
        ("trade", update("trade", BUY)),
        ("trade", update("trade", BUY | {"timestamp": TIME, "side": "both"})),
        ("trade", update("trade", BUY | {"timestamp": TIME, "qty": None})),
        ("book_change", {"channel": "book", "data": []}),
        ("book_change", update("book", {"symbol": "A/B", "bids": [["1", "2"]]})),
        ("book_ticker", update("ticker", {"bid": 1})),
    ],
)
def test_object_of_another_shape_is_an_error(data_type: str, message: Any) -> None:
    with pytest.raises(MappingError, match="kraken"):
        map_v2(data_type, message)


@pytest.mark.parametrize("epoch", ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"])
def test_ticker_of_the_epoch_is_left_out(epoch: str) -> None:
    assert map_v2("book_ticker", update("ticker", {"symbol": "A/B", "timestamp": epoch})) == []


def test_recording_is_filtered_by_the_format_of_its_time() -> None:
    lines = [
        b'2026-07-09T23:59:59.9999990Z [1,[],"trade","ETH/USD"]',
        b'2026-07-09T23:59:59.9999991Z [1,{"as":[],"bs":[]},"book-1000","ETH/USD"]',
        b'2026-07-09T23:59:59.9999992Z [1,{"a":[]},{"b":[]},"book-1000","XBT/USD"]',
        b'2026-07-10T00:00:00.0000000Z {"channel":"book","data":[{"symbol":"XBT/USD"}]}',
        b'2026-07-10T00:00:00.0000001Z {"channel":"book","data":[{"symbol":"ETH/USD"}]}',
        b'2026-07-10T00:00:00.0000002Z {"channel":"ticker","data":[{"symbol":"ETH/USD"}]}',
        b'2026-07-10T00:00:00.0000003Z {"channel":"instrument","data":{"pairs":[]}}',
        b'2026-07-10T00:00:00.0000004Z {"channel":"heartbeat"}',
    ]
    wanted = [Filter("book", ("ETH/USD",)), Filter("instrument", ("ETH/USD",))]
    selected = LineFilter(REGISTRY["kraken"], wanted).select(lines)
    assert selected == [lines[index] for index in (1, 4, 6)]


def test_subscription_of_v1_clients_names_channel_and_pairs() -> None:
    subscription = {"name": "book", "depth": 1000}
    message = {"event": "subscribe", "pair": ["XBT/USD", "ETH/EUR"], "subscription": subscription}
    assert v1.read_subscribe(message) == [Filter("book", ("XBT/USD", "ETH/EUR"))]
    assert v1.read_subscribe(message | {"event": "unsubscribe"}) is None


def test_subscription_of_v2_clients_is_understood_where_v2_is_replayed() -> None:
    message = {"method": "subscribe", "params": {"channel": "book", "symbol": ["BTC/USD"]}}
    understood = [Filter("book", ("BTC/USD",))]
    for at_us, expected in ((SWITCH_US - 1, [None]), (SWITCH_US, [understood, None])):
        readers = subscribe_readers(REGISTRY["kraken"], at_us, NOW_US)
        assert [read(message) for read in readers] == expected


def test_subscription_without_symbols_is_for_all() -> None:
    message = {"method": "subscribe", "params": {"channel": "instrument", "snapshot": True}}
    assert read_subscribe(message) == [Filter("instrument")]
    assert read_subscribe(message | {"method": "unsubscribe"}) is None


def test_feed_asks_once_per_channel_on_one_socket() -> None:
    symbols = ("ETH/EUR", "BTC/USD")
    wanted = ("trade", "spread", "ticker", "instrument", "book")
    (connection,) = connections([Filter(channel, symbols) for channel in wanted], Access())
    in_order = {"symbol": ["BTC/USD", "ETH/EUR"]}
    assert connection.url == "wss://ws.kraken.com/v2"
    assert [json.loads(frame) for frame in connection.frames] == [
        {"method": "subscribe", "params": params}
        for params in (
            {"channel": "book", **in_order, "depth": 1000},
            {"channel": "instrument", "include_tokenized_assets": True},
            {"channel": "ticker", **in_order, "event_trigger": "bbo"},
            {"channel": "trade", **in_order},
        )
    ]


def test_feed_has_no_socket_for_what_is_only_recorded() -> None:
    assert connections([Filter("spread", ("BTC/USD",))], Access()) == []


@pytest.mark.parametrize("symbols", [None, ()])
def test_feed_refuses_all_symbols(symbols: tuple[str, ...] | None) -> None:
    with pytest.raises(RequestError, match="symbols to stream 'book'"):
        connections([Filter("book", symbols)], Access())
