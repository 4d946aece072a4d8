"""Feeds as data: filters spread over connections, and what the environment changes."""

import pytest

from tardis_machine.exchanges.feeds import (
    Access,
    split_by_symbol,
    subscription_count,
    symbols_of,
    without,
)
from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import Filter


def test_few_subscriptions_stay_together() -> None:
    filters = [Filter("trade", ("b", "a")), Filter("book", ("a",))]
    assert [*split_by_symbol(filters, 3)] == [(Filter("book", ("a",)), Filter("trade", ("a", "b")))]


def test_channels_of_a_symbol_stay_together() -> None:
    filters = [Filter("mark", ("a", "b", "c")), Filter("ticker", ("a", "b", "c")), Filter("all")]
    parts = [*split_by_symbol(filters, 3)]
    assert parts == [
        (Filter("all"), Filter("mark", ("a",)), Filter("ticker", ("a",))),
        (Filter("mark", ("b",)), Filter("ticker", ("b",))),
        (Filter("mark", ("c",)), Filter("ticker", ("c",))),
    ]
    assert max(map(subscription_count, parts)) <= 3


def test_symbol_with_more_channels_than_the_limit_has_a_connection_of_its_own() -> None:
    filters = [Filter(channel, ("a", "b")) for channel in ("x", "y", "z")]
    assert [subscription_count(part) for part in split_by_symbol(filters, 2)] == [3, 3]


def test_dropped_filters_leave_the_others() -> None:
    filters = [Filter("book", ("a", "b")), Filter("trade", ("a",)), Filter("all")]
    assert without(filters, [Filter("book", ("a",)), Filter("all")]) == [
        Filter("book", ("b",)),
        Filter("trade", ("a",)),
    ]
    assert without(filters, [Filter("trade", ("a",))]) == [filters[0], filters[2]]


def test_filter_without_symbols_is_refused_with_the_channel() -> None:
    with pytest.raises(RequestError, match=r"okex requires explicitly specified symbols.*'books'"):
        symbols_of("okex", Filter("books"))


def test_environment_replaces_the_address() -> None:
    access = Access({"WSS_URL_BINANCE_FUTURES": "wss://elsewhere/stream"})
    assert access.url("binance-futures", "wss://usual") == "wss://elsewhere/stream"
    assert access.url("binance", "wss://usual") == "wss://usual"


def test_number_of_the_environment_that_is_none_is_refused() -> None:
    with pytest.raises(RequestError, match="LIMIT must be a number, got 'many'"):
        Access({"LIMIT": "many"}).number("LIMIT", 1)
