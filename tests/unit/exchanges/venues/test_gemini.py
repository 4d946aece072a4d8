"""Gemini: odd messages of both formats, filters across their switch, and subscriptions."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.exchanges.venues.gemini import connections, read_old_subscribe, read_subscribe
from tardis_machine.exchanges.versions import subscribe_readers
from tardis_machine.model.errors import MappingError
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import parse_us
from tests.unit.exchanges.mapping import NOW_US, connect, feed, map_messages

SWITCH_US = parse_us("2026-07-24T00:00:00.000Z")
TRADE = {"E": 1, "s": "btcusd", "t": 2, "p": "3", "q": "4", "m": True}


def test_auction_events_mark_a_whole_book_even_without_any() -> None:
    book = {"type": "l2_updates", "symbol": "BTCUSD", "changes": []}
    records = map_messages("gemini", "book_change", book | {"auction_events": None}, book)
    assert [record.is_snapshot for record in records] == [True, False]


def test_other_events_are_no_books() -> None:
    normalizer = connect("gemini", "book_change", at_us=SWITCH_US)
    assert feed(normalizer, {"e": "other", "E": 1, "s": "btcusd"}) == []


@pytest.mark.parametrize(
    ("data_type", "message"),
    [
        ("trade", TRADE | {"p": None}),
        ("trade", {key: value for key, value in TRADE.items() if key != "E"}),
        ("trade", TRADE | {"m": "maybe"}),
        ("book_change", {"e": "depthUpdate", "E": 1, "s": "btcusd", "b": [["1"]]}),
        ("book_ticker", {"B": "1", "s": "btcusd"}),
    ],
)
def test_message_of_another_shape_is_an_error(data_type: str, message: Any) -> None:
    with pytest.raises(MappingError, match="gemini"):
        feed(connect("gemini", data_type, at_us=SWITCH_US), message)


def test_recording_is_filtered_by_the_format_of_its_time() -> None:
    lines = [
        b'2026-07-23T23:59:59.9999990Z {"type":"trade","symbol":"BTCUSD"}',
        b'2026-07-23T23:59:59.9999991Z {"type":"trade","symbol":"ETHUSD"}',
        b'2026-07-24T00:00:00.0000000Z {"E":1,"s":"btcusd","t":2}',
        b'2026-07-24T00:00:00.0000001Z {"E":1,"s":"ethusd","t":2}',
        b'2026-07-24T00:00:00.0000002Z {"e":"depthUpdate","E":1,"s":"ethusd"}',
    ]
    selected = LineFilter(REGISTRY["gemini"], [Filter("trade", ("ETHUSD",))]).select(lines)
    assert selected == [lines[1], lines[3]]


def test_old_subscription_brings_what_it_always_brought() -> None:
    message = {"type": "subscribe", "subscriptions": [{"name": "l2", "symbols": ["BTCUSD"]}]}
    filters = read_old_subscribe(message)
    assert filters is not None
    assert [entry.channel for entry in filters][:2] == ["trade", "l2_updates"]
    candles = {"type": "subscribe", "subscriptions": [{"name": "candles_1m", "symbols": ["A"]}]}
    assert read_old_subscribe(candles) == []


def test_new_subscription_is_understood_where_the_new_format_is_replayed() -> None:
    message = {"method": "SUBSCRIBE", "params": ["btcusd@depth@100ms", "btcusd@trade"], "id": 1}
    assert read_subscribe(message) == [Filter("depth", ("BTCUSD",)), Filter("trade", ("BTCUSD",))]
    for at_us, count in ((SWITCH_US - 1, 1), (SWITCH_US, 2)):
        assert len(subscribe_readers(REGISTRY["gemini"], at_us, NOW_US)) == count


def test_feed_sends_one_frame_in_lower_case() -> None:
    filters = [Filter("trade", ("BTCUSD",)), Filter("depth", ("BTCUSD",))]
    [connection] = connections(filters, Access())
    [frame] = map(json.loads, connection.frames)
    assert frame["params"] == ["btcusd@depth@100ms", "btcusd@trade"]
