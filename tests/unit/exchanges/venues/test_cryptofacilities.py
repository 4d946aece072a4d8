"""Rules of cryptofacilities that its golden files do not show."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.venues.cryptofacilities import (
    connections,
    read_live_subscribe,
    read_subscribe,
    read_symbols,
)
from tardis_machine.model.errors import MappingError, RequestError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import map_messages

TRADE = {"feed": "trade", "product_id": "A", "price": 1, "qty": 2, "side": "buy", "time": 3}


@pytest.mark.parametrize("fields", [{"side": "hold"}, {"price": None}, {"time": "now"}])
def test_trade_of_another_shape_is_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises(MappingError, match="cryptofacilities"):
        map_messages("cryptofacilities", "trade", TRADE | fields)


def test_trade_of_a_liquidation_is_both() -> None:
    message = TRADE | {"type": "liquidation"}
    records = map_messages("cryptofacilities", ["trade", "liquidation"], message)
    assert [record.type for record in records] == ["trade", "liquidation"]


def test_snapshots_are_asked_for_by_the_feed_they_come_with() -> None:
    filters = [Filter("book", ("A",)), Filter("book_snapshot", ("A", "B")), Filter("heartbeat")]
    [connection] = connections(filters, Access())
    assert [json.loads(frame) for frame in connection.frames] == [
        {"event": "subscribe", "feed": "book", "product_ids": ["A", "B"]},
        {"event": "subscribe", "feed": "heartbeat"},
    ]


def test_feed_without_products_is_refused() -> None:
    with pytest.raises(RequestError, match="cryptofacilities requires"):
        connections([Filter("trade")], Access())


def test_live_subscription_brings_the_snapshot_as_well() -> None:
    message = {"event": "subscribe", "feed": "book", "product_ids": ["A"]}
    assert read_subscribe(message) == [Filter("book", ("A",))]
    assert read_live_subscribe(message) == [
        *(Filter("book", ("A",)), Filter("book_snapshot", ("A",))),
    ]
    assert read_live_subscribe(message | {"feed": "ticker"}) == [Filter("ticker", ("A",))]


def test_message_is_about_its_product() -> None:
    assert read_symbols(b'{"feed":"trade","product_id":"A"}') == ("A",)
    assert read_symbols(b'{"feed":"heartbeat"}') == ()
