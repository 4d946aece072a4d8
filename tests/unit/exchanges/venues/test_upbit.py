"""Upbit: odd messages and subscriptions."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.venues.upbit import connections, read_subscribe
from tardis_machine.model.errors import MappingError, RequestError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import map_messages

TRADE = {"type": "trade", "code": "KRW-BTC", "trade_timestamp": 1, "trade_price": 2}


@pytest.mark.parametrize(
    ("data_type", "message"),
    [
        ("trade", TRADE),
        ("book_change", {"type": "orderbook", "code": "KRW-BTC", "timestamp": 1}),
        (
            "book_change",
            {"type": "orderbook", "code": "KRW-BTC", "timestamp": 1, "orderbook_units": [{}]},
        ),
    ],
)
def test_message_of_another_shape_is_an_error(data_type: str, message: Any) -> None:
    with pytest.raises(MappingError, match="upbit"):
        map_messages("upbit", data_type, message)


def test_subscription_is_a_list_with_an_entry_per_channel() -> None:
    message = [{"ticket": "x"}, {"type": "trade", "codes": ["KRW-BTC"]}, {"type": "ticker"}]
    assert read_subscribe(message) == [Filter("trade", ("KRW-BTC",)), Filter("ticker")]
    assert read_subscribe([]) == []
    assert read_subscribe({"type": "trade", "codes": ["KRW-BTC"]}) is None


def test_feed_asks_for_everything_by_one_frame_with_the_time_as_ticket() -> None:
    filters = [Filter("trade", ("KRW-BTC",)), Filter("orderbook", ("KRW-BTC",))]
    [connection] = connections(filters, Access(now_us=1_700_000_000_123_456))
    [[ticket, book, trade]] = map(json.loads, connection.frames)
    assert ticket == {"ticket": "1700000000123"}
    assert book == {"type": "orderbook", "codes": ["KRW-BTC"], "isOnlyRealtime": True}
    assert trade["type"] == "trade"


def test_feed_refuses_all_symbols() -> None:
    with pytest.raises(RequestError, match="symbols to stream 'trade'"):
        connections([Filter("trade")], Access())
