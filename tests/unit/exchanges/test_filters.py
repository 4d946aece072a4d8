"""Filters: merging, the shared cache hash, the query text, and which symbols pass."""

import pytest

from tardis_machine.exchanges.filters import (
    accepted_symbols,
    filters_hash,
    filters_query,
    merge_filters,
    optimize_filters,
)
from tardis_machine.model.requests import Filter


def test_equal_channels_merge_where_the_first_stands() -> None:
    merged = merge_filters(
        [Filter("trade", ("b",)), Filter("book", ("a",)), Filter("trade", ("a", "b"))]
    )
    assert merged == (Filter("trade", ("b", "a")), Filter("book", ("a",)))


@pytest.mark.parametrize(
    "filters",
    [
        [Filter("trade"), Filter("trade", ("ETHUSD",))],
        [Filter("trade", ("ETHUSD",)), Filter("trade")],
    ],
)
def test_all_symbols_beside_some_narrow_to_some(filters: list[Filter]) -> None:
    assert merge_filters(filters) == (Filter("trade", ("ETHUSD",)),)


def test_an_empty_symbol_list_is_not_the_same_as_none() -> None:
    assert merge_filters([Filter("trade"), Filter("trade", ())]) == (Filter("trade", ()),)
    assert filters_hash([Filter("trade", ())]) != filters_hash([Filter("trade")])


def test_optimized_filters_are_sorted_by_code_unit_without_repeats() -> None:
    optimized = optimize_filters(
        [Filter("b", ("é", "b", "10", "a", "Z_", "9", "B", "b")), Filter("a"), Filter("B")]
    )
    assert optimized == (
        Filter("B"),
        Filter("a"),
        Filter("b", ("10", "9", "B", "Z_", "a", "b", "é")),
    )


def test_symbols_outside_the_basic_plane_sort_by_their_surrogates() -> None:
    assert optimize_filters([Filter("a", ("\uff5a", "\U0001f600"))]) == (
        Filter("a", ("\U0001f600", "\uff5a")),
    )


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"),
        ([Filter("trade")], "822dcc1de83dad24dcdb9a2e3ff506afc20f27f9da1c21c39084cd8bf3e56a6b"),
        (
            [Filter("trade", ("XBTUSD",))],
            "344565a28e99e233a29205050587032c5fe9635db429272bceacdf9abcf78a3f",
        ),
    ],
)
def test_hash_equals_the_published_one(filters: list[Filter], expected: str) -> None:
    assert filters_hash(filters) == expected


def test_hash_ignores_the_order_the_client_chose() -> None:
    one = [Filter("trade", ("a", "b")), Filter("book")]
    other = [Filter("book"), Filter("trade", ("b", "a"))]
    assert filters_hash(one) == filters_hash(other)


def test_query_is_encoded_as_a_uri_component() -> None:
    assert filters_query([Filter("trade", ("a b", "(c)'!*~"))]) == (
        "%5B%7B%22channel%22%3A%22trade%22%2C%22symbols%22%3A%5B%22(c)'!*~%22%2C%22a%20b%22%5D%7D%5D"
    )


def test_query_is_absent_without_filters() -> None:
    assert filters_query([]) is None


def test_accepted_symbols_are_the_asked_the_upper_case_and_the_native_ones() -> None:
    filters = [Filter("a"), Filter("b", ("solusdt",))]
    assert accepted_symbols(["BTCUSDT", "ethusdt"], filters) == {
        "BTCUSDT",
        "ethusdt",
        "ETHUSDT",
        "solusdt",
    }


@pytest.mark.parametrize("requested", [None, [], ()])
def test_no_requested_symbols_accept_all(requested: list[str] | None) -> None:
    assert accepted_symbols(requested, [Filter("trade", ("X",))]) is None
