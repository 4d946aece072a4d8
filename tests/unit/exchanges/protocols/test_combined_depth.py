"""Depth joined to its snapshot: what is held back, dropped, merged and refused."""

from typing import Any

import pytest

from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.protocols.combined_depth import BUFFERED_DELTAS
from tardis_machine.model.errors import MappingError
from tardis_machine.model.records import BookLevel
from tests.unit.exchanges.mapping import connect, feed


def delta(first: int, last: int, *bids: Any, previous: int | None = None, s: str = "A") -> Any:
    data = {"E": 1709251200000, "s": s, "U": first, "u": last, "b": list(bids), "a": []}
    return {"stream": f"{s.lower()}@depth@100ms", "data": data | {"pu": previous}}


def snapshot(last_id: int, *bids: Any, s: str = "A") -> Any:
    data = {"lastUpdateId": last_id, "bids": list(bids), "asks": []}
    return {"stream": f"{s.lower()}@depthSnapshot", "generated": True, "data": data}


def spot(*, is_live: bool = False) -> Normalizer:
    return connect("binance", "book_change", is_live=is_live)


def futures(*, is_live: bool = False) -> Normalizer:
    return connect("binance-futures", "book_change", is_live=is_live)


def test_spot_delta_that_ends_at_the_snapshot_is_stale() -> None:
    records = feed(spot(), snapshot(10), delta(8, 10, ["1", "1"]), delta(11, 11, ["2", "2"]))
    assert [record.bids for record in records] == [[], [BookLevel(2.0, 2.0)]]


def test_futures_delta_that_ends_at_the_snapshot_counts() -> None:
    records = feed(futures(), snapshot(10), delta(7, 9, ["1", "1"]), delta(8, 10, ["2", "2"]))
    assert [record.bids for record in records] == [[], [BookLevel(2.0, 2.0)]]


@pytest.mark.parametrize("first", [9, 11])
def test_live_spot_delta_that_joins_is_accepted(first: int) -> None:
    assert len(feed(spot(is_live=True), snapshot(10), delta(first, 12))) == 2


def test_live_spot_delta_that_leaves_a_hole_is_refused() -> None:
    normalizer = spot(is_live=True)
    feed(normalizer, snapshot(10))
    with pytest.raises(MappingError, match=r"A: the first depth update \(12 to 13\)"):
        feed(normalizer, delta(12, 13))


def test_recorded_delta_that_leaves_a_hole_is_accepted() -> None:
    assert len(feed(spot(), snapshot(10), delta(12, 13))) == 2


def test_only_the_first_live_delta_is_checked() -> None:
    records = feed(spot(is_live=True), snapshot(10), delta(11, 11), delta(50, 51))
    assert len(records) == 3


def test_empty_book_of_a_new_market_accepts_any_delta() -> None:
    assert len(feed(spot(is_live=True), snapshot(-1), delta(500, 501))) == 2


@pytest.mark.parametrize(("first", "last", "previous"), [(8, 12, 7), (11, 12, 10)])
def test_live_futures_delta_that_joins_is_accepted(first: int, last: int, previous: int) -> None:
    update = delta(first, last, previous=previous)
    assert len(feed(futures(is_live=True), snapshot(10), update)) == 2


def test_live_futures_delta_that_leaves_a_hole_is_refused() -> None:
    with pytest.raises(MappingError, match="does not follow the snapshot"):
        feed(futures(is_live=True), snapshot(10), delta(11, 12, previous=9))


def test_buffered_deltas_are_merged_in_order() -> None:
    (record,) = feed(
        spot(),
        delta(11, 11, ["3", "1"], ["2", "0"]),
        delta(12, 12, ["3", "5"], ["2", "7"], ["9", "0"]),
        snapshot(10, ["2", "2"], ["1", "1"]),
    )
    assert record.is_snapshot
    assert record.bids == [BookLevel(1.0, 1.0), BookLevel(3.0, 5.0), BookLevel(2.0, 7.0)]


def test_buffer_keeps_the_newest_deltas() -> None:
    normalizer = spot()
    count = BUFFERED_DELTAS + 5
    deltas = [delta(number, number, [str(number), "1"]) for number in range(1, count + 1)]
    assert feed(normalizer, *deltas) == []
    (record,) = feed(normalizer, snapshot(0))
    assert len(record.bids) == BUFFERED_DELTAS
    assert record.bids[0].price == 6.0


def test_books_of_symbols_are_apart() -> None:
    records = feed(spot(), snapshot(10), delta(1, 1, s="B"), delta(11, 11))
    assert [record.symbol for record in records] == ["A", "A"]


def test_further_elements_of_a_level_are_ignored() -> None:
    (record,) = feed(spot(), snapshot(10, ["1", "2", []]))
    assert record.bids == [BookLevel(1.0, 2.0)]


def test_ids_above_double_precision_stay_exact() -> None:
    top = 2**53
    records = feed(spot(), snapshot(top), delta(top + 1, top + 1))
    assert len(records) == 2
