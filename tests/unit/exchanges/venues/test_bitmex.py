"""BitMEX: what the golden files do not show."""

from typing import Any

import pytest

from tardis_machine.exchanges.venues.bitmex import read_subscribe
from tardis_machine.model.errors import MappingError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import LOCAL, connect, feed, map_messages


def rows(table: str, action: str, *data: dict[str, Any]) -> Any:
    return {"table": table, "action": action, "data": list(data)}


def level(id_: int, **fields: Any) -> dict[str, Any]:
    return {"symbol": "XBTUSD", "id": id_, "side": "Buy"} | fields


def test_book_change_has_the_latest_time_of_its_rows() -> None:
    message = rows(
        *("orderBookL2", "insert"),
        level(1, price=1, size=1, timestamp="2024-03-01T00:00:00.500Z"),
        level(2, price=2, size=1, timestamp="2024-03-01T00:00:01Z"),
        level(3, price=3, size=1),
    )
    (record,) = map_messages("bitmex", "book_change", message)
    assert record.timestamp == "2024-03-01T00:00:01.000Z"


def test_book_change_without_time_has_that_of_its_arrival() -> None:
    message = rows("orderBookL2", "insert", level(1, price=1, size=None))
    (record,) = map_messages("bitmex", "book_change", message)
    assert record.timestamp == LOCAL
    assert record.bids[0].amount == 0.0


def test_price_is_remembered_from_any_action() -> None:
    normalizer = connect("bitmex", "book_change")
    feed(normalizer, rows("orderBookL2", "insert", level(1, price=10, size=1)))
    feed(normalizer, rows("orderBookL2", "update", level(1, price=11, size=1)))
    (record,) = feed(normalizer, rows("orderBookL2", "delete", level(1)))
    assert (record.bids[0].price, record.bids[0].amount) == (11.0, 0.0)


def test_row_without_side_is_an_ask() -> None:
    message = rows("orderBookL2", "insert", {"symbol": "XBTUSD", "id": 1, "price": 2, "size": 3})
    (record,) = map_messages("bitmex", "book_change", message)
    assert not record.bids
    assert record.asks[0].price == 2.0


@pytest.mark.parametrize(("state", "count"), [("Open", 1), ("Closed", 1), ("Unlisted", 0)])
def test_instrument_counts_while_it_is_listed(state: str, count: int) -> None:
    message = rows("instrument", "partial", {"symbol": "A", "state": state, "lastPrice": 1})
    assert len(map_messages("bitmex", "derivative_ticker", message)) == count


def test_liquidation_without_price_is_an_error() -> None:
    message = rows("liquidation", "insert", {"symbol": "A", "orderID": "o-1", "side": "Buy"})
    with pytest.raises(MappingError, match="o-1"):
        map_messages("bitmex", "liquidation", message)


def test_subscription_takes_one_text_or_a_list() -> None:
    listed = {"op": "subscribe", "args": ["trade:XBTUSD", "instrument", "quote:A:rest"]}
    expected = [Filter("trade", ("XBTUSD",)), Filter("instrument"), Filter("quote", ("A",))]
    assert read_subscribe(listed) == expected
    assert read_subscribe({"op": "subscribe", "args": "trade:XBTUSD"}) == expected[:1]


def test_other_operations_are_no_subscription() -> None:
    assert read_subscribe({"op": "unsubscribe", "args": ["trade"]}) is None
    with pytest.raises(KeyError):
        read_subscribe({"op": "subscribe"})
