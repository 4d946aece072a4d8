"""Bitstamp: odd messages, and where books come from."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.venues.bitstamp import (
    FORMAT,
    BookMapper,
    connections,
    read_subscribe,
    unsubscribe,
)
from tardis_machine.model.errors import MappingError, RequestError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import feed_live, map_messages


def message(channel: str, event: str, **data: Any) -> Any:
    return {"data": data, "channel": f"{channel}_btcusd", "event": event}


def test_book_that_is_subscribed_anew_waits_for_another_snapshot() -> None:
    mapper = BookMapper("bitstamp", is_live=True)
    normalizer = Normalizer("bitstamp", FORMAT, [mapper])
    book = {"timestamp": "2", "microtimestamp": "2000000", "bids": [], "asks": []}
    snapshot = message("diff_order_book", "snapshot", **book)
    update = message("diff_order_book", "data", **book | {"microtimestamp": "2000001"})
    assert len(feed_live(normalizer, snapshot, update)) == 2
    mapper.forget("btcusd")
    assert feed_live(normalizer, update) == []
    assert [record.is_snapshot for record in feed_live(normalizer, snapshot)] == [True, False]


@pytest.mark.parametrize(
    ("data_type", "odd"),
    [
        ("trade", message("live_trades", "trade")),
        ("trade", message("live_trades", "trade", id=1, price="x", amount=1, type=0)),
        ("book_change", message("diff_order_book", "snapshot", bids=[["1"]])),
        ("book_change", {"channel": "diff_order_book_btcusd", "event": "data", "data": []}),
    ],
)
def test_message_of_another_shape_is_an_error(data_type: str, odd: Any) -> None:
    with pytest.raises(MappingError, match="bitstamp"):
        map_messages("bitstamp", data_type, odd)


def test_only_books_need_rest_calls() -> None:
    [connection] = connections([Filter("live_trades", ("btcusd",))], Access())
    assert connection.snapshots is None
    [connection] = connections([Filter("diff_order_book", ("btcusd",))], Access())
    assert connection.snapshots is not None
    calls = connection.snapshots.calls
    assert calls.url("btcusd") == "https://www.bitstamp.net/api/v2/order_book/btcusd?group=1"
    assert json.loads(calls.wrap("btcusd", b'{"bids":[]}')) == {
        "event": "snapshot",
        "channel": "diff_order_book_btcusd",
        "generated": True,
        "data": {"bids": []},
    }


def test_each_channel_and_symbol_has_a_frame() -> None:
    filters = [Filter("live_trades", ("btcusd",)), Filter("live_orders", ("btcusd", "etheur"))]
    [connection] = connections(filters, Access())
    read = [read_subscribe(json.loads(frame)) for frame in connection.frames]
    assert read == [
        [Filter("live_orders", ("btcusd",))],
        [Filter("live_orders", ("etheur",))],
        [Filter("live_trades", ("btcusd",))],
    ]
    [frame, *_] = unsubscribe(filters, Access())
    assert json.loads(frame)["event"] == "bts:unsubscribe"
    assert read_subscribe(json.loads(frame)) is None


def test_feed_refuses_all_symbols() -> None:
    with pytest.raises(RequestError, match="symbols to stream 'live_trades'"):
        connections([Filter("live_trades")], Access())
