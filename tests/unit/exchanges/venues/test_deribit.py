"""Deribit: symbols, options, channels and what the golden files do not show."""

from typing import Any

import pytest

from tardis_machine.exchanges.venues.deribit.feed import filter_symbol, locate, read_subscribe
from tardis_machine.exchanges.venues.deribit.mappers import parse_option
from tardis_machine.model.errors import MappingError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import map_messages


def notification(channel: str, data: Any) -> Any:
    params = {"channel": channel, "data": data}
    return {"jsonrpc": "2.0", "method": "subscription", "params": params}


def ticker(name: str, **fields: Any) -> Any:
    data = {"instrument_name": name, "timestamp": 1709251200000, "last_price": 1} | fields
    return notification(f"ticker.{name}.raw", data)


def book(**fields: Any) -> Any:
    data = {"instrument_name": "A", "timestamp": 1709251200000, "bids": [], "asks": []} | fields
    return notification("book.A.raw", data)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("btc-perpetual", "BTC-PERPETUAL"),
        ("MATIC_USDC-9MAR24-1D02-C", "MATIC_USDC-9MAR24-1d02-C"),
        ("MATIC_USDC-9MAR24-1d02-P", "MATIC_USDC-9MAR24-1d02-P"),
        ("matic_usdc-9mar24-1d02-c", "MATIC_USDC-9MAR24-1D02-C"),
        ("eth-10sep21-3350-P", "ETH-10SEP21-3350-P"),
        ("Xrp_usdc-9mar24-0D5D-C", "Xrp_usdc-9mar24-0d5D-C"),
        ("ODD-C", "ODD-C"),
    ],
)
def test_filter_spells_symbols_as_the_feed(typed: str, expected: str) -> None:
    assert filter_symbol(typed) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BTC-8JUN20-8750-P", ("put", 8750.0, "2020-06-08T08:00:00.000Z")),
        ("ETH-29MAR24-3400-C", ("call", 3400.0, "2024-03-29T08:00:00.000Z")),
        ("XRP_USDC-9MAR24-0d525-C", ("call", 0.525, "2024-03-09T08:00:00.000Z")),
    ],
)
def test_option_name_tells_type_strike_and_expiry(name: str, expected: tuple[Any, ...]) -> None:
    assert parse_option(name) == expected


def test_option_with_another_name_is_an_error() -> None:
    with pytest.raises(MappingError, match="deribit"):
        map_messages("deribit", "option_summary", ticker("SOMETHING-C"))


def test_options_have_a_summary_and_futures_a_derivative_ticker() -> None:
    messages = [
        ticker("BTC-29MAR24-62000-P", greeks={"delta": 0}),
        ticker("btc-perpetual"),
        ticker("BTC-CS-29MAR24-1_2", greeks={}, combo_state="active"),
        ticker("BTC-CS-29MAR24-1_2", greeks={}, combo_state="inactive", last_price=2),
    ]
    records = map_messages("deribit", ["derivative_ticker", "option_summary"], *messages)
    assert [(record.type, record.symbol) for record in records] == [
        ("option_summary", "BTC-29MAR24-62000-P"),
        ("derivative_ticker", "btc-perpetual"),
        ("derivative_ticker", "BTC-CS-29MAR24-1_2"),
    ]


@pytest.mark.parametrize(
    ("fields", "is_snapshot"),
    [
        ({"type": "snapshot", "prev_change_id": 5}, True),
        ({"type": "change", "prev_change_id": 5}, False),
        ({"type": "change", "prev_change_id": 0}, True),
        ({"type": "change"}, True),
        ({"prev_change_id": 2**60 + 1}, False),
    ],
)
def test_book_without_predecessor_is_a_snapshot(fields: dict[str, Any], is_snapshot: bool) -> None:
    (record,) = map_messages("deribit", "book_change", book(**fields))
    assert record.is_snapshot is is_snapshot


def test_deleted_level_has_no_amount_whatever_is_sent() -> None:
    (record,) = map_messages("deribit", "book_change", book(bids=[["delete", 1.5, 7]]))
    assert (record.bids[0].price, record.bids[0].amount) == (1.5, 0.0)


@pytest.mark.parametrize(
    ("mark", "direction", "side"),
    [("T", "buy", "buy"), ("M", "buy", "sell"), ("MT", "sell", "buy"), ("T", "sell", "sell")],
)
def test_liquidation_has_the_side_of_the_liquidated_order(
    mark: str, direction: str, side: str
) -> None:
    item = {"instrument_name": "A", "trade_id": 7, "price": 1, "amount": 2, "timestamp": 0}
    marked = item | {"direction": direction, "liquidation": mark}
    message = notification("trades.A.raw", [item | {"direction": "buy"}, marked])
    (record,) = map_messages("deribit", "liquidation", message)
    assert (record.side, record.id) == (side, "7")


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        ("trades.BTC-PERPETUAL.raw", Filter("trades", ("BTC-PERPETUAL",))),
        ("book.ETH-PERPETUAL.100.1.100ms", Filter("book", ("ETH-PERPETUAL.100.1",))),
        ("deribit_price_ranking.btc_usd", Filter("deribit_price_ranking", ("btc_usd",))),
        ("markprice.options.btc_usd", Filter("markprice.options", ("btc_usd",))),
        ("instrument.state.any.BTC", Filter("instrument.state.any", ("BTC",))),
        ("platform_state", Filter("platform_state")),
    ],
)
def test_channel_is_located(channel: str, expected: Filter) -> None:
    assert locate(channel) == expected


@pytest.mark.parametrize("method", ["public/subscribe", "private/subscribe"])
def test_subscription_is_public_or_private(method: str) -> None:
    message = {"method": method, "params": {"channels": ["book.A.raw", "platform_state"]}}
    assert read_subscribe(message) == [Filter("book", ("A",)), Filter("platform_state")]


def test_other_methods_are_no_subscription() -> None:
    assert read_subscribe({"method": "public/set_heartbeat", "params": {}}) is None
