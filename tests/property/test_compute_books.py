"""Books and snapshots against plain dictionaries that follow the rules word by word."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from operator import add

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from tardis_machine.computed.book_snapshots import BookSnapshots
from tardis_machine.computed.books import new_book, new_side
from tardis_machine.computed.compiled_book_snapshots import CompiledBookSnapshots
from tardis_machine.computed.compiled_order_book import CompiledBookSide
from tardis_machine.computed.grouping import GroupedPrices
from tardis_machine.computed.order_book import BookSide
from tardis_machine.computed.pipeline import Computables
from tardis_machine.computed.price_groups import PriceGroups
from tardis_machine.model.data_types import BookSnapshotSpec
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import (
    BookChange,
    BookLevel,
    EncodedBookChange,
    EncodedBookSnapshot,
)
from tardis_machine.model.time import ms_text, us_text

START_MS = 1_709_251_200_000

Pair = tuple[float, float]


@dataclass
class NaiveBook:
    """A book as two dictionaries, sorted at every look."""

    removes_crossed_levels: bool
    is_ready: bool = False
    sides: dict[str, dict[float, float]] = field(default_factory=lambda: {"bids": {}, "asks": {}})

    def apply(self, change: BookChange) -> None:
        self.is_ready = self.is_ready or change.is_snapshot
        if not self.is_ready:
            return
        if change.is_snapshot:
            self.sides = {"bids": {}, "asks": {}}
        for name, levels in (("asks", change.asks), ("bids", change.bids)):
            for level in levels:
                self.sides[name].pop(level.price, None)
                if level.amount != 0:
                    self.sides[name][level.price] = level.amount
        if self.removes_crossed_levels:
            self.uncross(change)

    def uncross(self, change: BookChange) -> None:
        bids, asks = self.sides["bids"], self.sides["asks"]
        is_ask_fresh = bool(asks) and min(asks) in [level.price for level in change.asks]
        while bids and asks and max(bids) >= min(asks):
            if is_ask_fresh:
                del bids[max(bids)]
            else:
                del asks[min(asks)]

    def bids(self) -> list[Pair]:
        return sorted(self.sides["bids"].items(), reverse=True)

    def asks(self) -> list[Pair]:
        return sorted(self.sides["asks"].items())


def grouped(levels: Sequence[Pair], step: int | None, *, is_bid: bool) -> list[Pair]:
    """Group whole prices by a whole step, where floor and ceiling are exact."""
    if step is None:
        return list(levels)
    sums: dict[float, float] = {}
    for price, amount in levels:
        multiple = math.floor(price / step) if is_bid else math.ceil(price / step)
        sums[multiple * step] = sums.get(multiple * step, 0) + amount
    return list(sums.items())


class NaiveSnapshots:
    """One snapshot type, step by step."""

    def __init__(self, spec: BookSnapshotSpec) -> None:
        self.spec = spec
        self.book = NaiveBook(spec.removes_crossed_levels)
        self.shown: tuple[list[Pair], list[Pair]] = ([], [])
        self.has_changed = False
        self.is_initialized = False
        self.last_ms = 0

    def apply(self, change: BookChange, time_ms: int) -> list[tuple[object, ...]]:
        out = []
        if self.is_due(time_ms):
            out.append(self.emission())
        self.book.apply(change)
        shown = (
            grouped(self.book.bids(), self.spec.grouping, is_bid=True)[: self.spec.depth],
            grouped(self.book.asks(), self.spec.grouping, is_bid=False)[: self.spec.depth],
        )
        self.has_changed = self.has_changed or shown != self.shown
        self.shown = shown
        self.last_ms = time_ms
        if self.is_due(time_ms):
            out.append(self.emission())
            self.is_initialized = True
        return out

    def is_due(self, time_ms: int) -> bool:
        if not self.has_changed:
            return False
        if self.spec.interval == 0 or not self.is_initialized:
            return True
        last = self.last_ms // self.spec.interval
        if time_ms // self.spec.interval <= last:
            return False
        self.last_ms = (last + 1) * self.spec.interval
        return True

    def emission(self) -> tuple[object, ...]:
        self.has_changed = False
        return (self.spec.name, *self.shown, ms_text(self.last_ms))


amounts = st.sampled_from([0.0, 0.0, 1.0, 2.0, 0.5])
near_levels = st.lists(st.tuples(st.integers(90, 110).map(float), amounts), max_size=6)
timed_changes = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 40, 100, 1500, -60]),
        st.sampled_from([False] * 9 + [True]),
        near_levels,
        near_levels,
    ),
    min_size=1,
    max_size=40,
)
specs = st.builds(
    BookSnapshotSpec,
    st.sampled_from([1, 2, 5, 30]),
    st.sampled_from([0, 0, 100, 1000]),
    st.sampled_from([None, None, 1, 4]),
    st.uuids().map(str),
    st.booleans(),
)


def book_changes(steps) -> list[tuple[BookChange, int]]:
    """Make changes of one symbol, the first of them a snapshot every other time."""
    changes = []
    time_ms = START_MS
    for step_ms, is_snapshot, bids, asks in steps:
        time_ms += step_ms
        change = BookChange(
            symbol="XBTUSD",
            exchange="bitmex",
            is_snapshot=is_snapshot or len(changes) == 1,
            bids=[BookLevel(*pair) for pair in bids],
            asks=[BookLevel(*pair) for pair in asks],
            timestamp=ms_text(time_ms),
            local_timestamp=us_text(time_ms * 1000 + 17),
        )
        changes.append((change, time_ms))
    return changes


def as_pairs(levels) -> list[Pair]:
    return [(level.price, level.amount) for level in levels]


@given(timed_changes, st.booleans(), st.integers(0, 12))
def test_book_equals_a_dictionary_book(steps, removes_crossed_levels, text_depth) -> None:
    book = new_book(removes_crossed_levels=removes_crossed_levels, text_depth=text_depth)
    plain = new_book(removes_crossed_levels=removes_crossed_levels)
    naive = NaiveBook(removes_crossed_levels)
    for change, _ in book_changes(steps):
        before = as_pairs(book.bids), as_pairs(book.asks)
        for each in (book, plain, naive):
            each.apply(change)
        assert as_pairs(book.bids) == naive.bids()
        assert as_pairs(book.asks) == naive.asks()
        for side, old in ((book.bids, before[0]), (book.asks, before[1])):
            unchanged = side.changed_depth
            assert as_pairs(side)[:unchanged] == old[:unchanged]
        for depth in (text_depth, 1, 20):
            assert book.bids.text(depth) == plain.bids.text(depth)
            assert book.asks.text(depth) == plain.asks.text(depth)


@given(
    st.lists(st.tuples(st.integers(0, 9), near_levels), max_size=40),
    st.booleans(),
    st.integers(0, 12),
    st.lists(st.integers(0, 14), min_size=1, max_size=3),
)
def test_compiled_side_equals_the_one_in_python(steps, is_bid, text_depth, depths) -> None:
    sides = [kind(is_bid=is_bid, text_depth=text_depth) for kind in (BookSide, CompiledBookSide)]
    for number, pairs in steps:
        for side in sides:
            if number == 0:
                side.load([BookLevel(*pair) for pair in pairs])
            elif number == 1 and len(side):
                side.remove_best()
            else:
                side.apply([BookLevel(*pair) for pair in pairs])
        expected, found = (seen(side, depths) for side in sides)
        assert found == expected


def seen(side: BookSide, depths: Sequence[int]) -> tuple[object, ...]:
    """Ask a side everything."""
    return (
        *(side.text(depth) for depth in depths),
        *(side.top(depth) for depth in depths),
        *(side.index(float(price)) for price in range(-111, 112)),
        *(side.key(index) for index in range(len(side))),
        *(side.levels, [*side], len(side), side.best, side.changed_depth, side.changed_keys()),
    )


def runs(levels, prices: GroupedPrices, depth: int) -> list[Pair]:
    """Sum neighbours of equal grouped price, word by word."""
    found: list[Pair] = []
    for price, run in groupby(levels, lambda level: prices[level.price]):
        found.append((price, reduce(add, (level.amount for level in run))))
    return found[:depth]


# Many of these prices are not exact in binary, so that some move to the group below.
ticks = st.integers(95, 130).map(lambda tick: tick / 100)
tenths = st.integers(0, 5).map(lambda tenth: tenth / 10)


@given(
    st.lists(st.lists(st.builds(BookLevel, ticks, tenths), max_size=6), max_size=30),
    st.booleans(),
    st.integers(1, 5),
    st.sampled_from([0.05, 0.1, 0.02, 0]),
)
def test_groups_kept_up_to_date_equal_those_made_anew(changes, is_bid, depth, step) -> None:
    side = new_side(is_bid=is_bid)
    groups = PriceGroups(side, GroupedPrices(step, is_bid=is_bid), depth)
    for number, levels in enumerate(changes):
        (side.load if number % 11 == 0 else side.apply)(levels)
        if number % 5 == 4 and len(side):
            side.remove_best()
        groups.follow()
        decoded = msgspec.json.decode(b"[%b]" % groups.text(), type=list[BookLevel])
        assert as_pairs(decoded) == runs(side, GroupedPrices(step, is_bid=is_bid), depth)


@given(timed_changes, st.lists(specs, min_size=1, max_size=4))
def test_snapshots_equal_a_step_by_step_version(steps, requested) -> None:
    computables = Computables(requested, trim_levels=True)
    naive = [NaiveSnapshots(spec) for spec in requested]
    for change, time_ms in book_changes(steps):
        expected = [emission for each in naive for emission in each.apply(change, time_ms)]
        records = computables.triggered_by(change)
        assert [emitted(record) for record in records] == expected
        assert {record.local_timestamp for record in records} <= {change.local_timestamp}


intervals = st.sampled_from([0, 0, 100, 1000, 0.5, 1.5])
plain_specs = st.builds(
    BookSnapshotSpec,
    st.sampled_from([1, 2, 5, 30]),
    intervals,
    st.none(),
    st.uuids().map(str),
    st.booleans(),
)


AT_THE_END_OF_AN_INTERVAL = [
    (0, True, [(99.0, 1.0)], []),
    (40, False, [(99.0, 2.0)], []),
    (60, False, [(99.0, 0.5)], []),
    (1, False, [], []),
]


@given(timed_changes, st.lists(plain_specs, min_size=1, max_size=4), st.booleans(), st.booleans())
@example(AT_THE_END_OF_AN_INTERVAL, [BookSnapshotSpec(2, 100, None, "periodic")], True, False)
def test_compiled_snapshots_equal_those_in_python(steps, requested, trim_levels, is_text) -> None:
    expected, found = [], []
    python = BookSnapshots(requested, trim_levels=trim_levels)
    compiled = CompiledBookSnapshots(requested, trim_levels=trim_levels)
    for change, _ in book_changes(steps):
        given_change = as_text(change) if is_text else change
        python.apply(given_change, expected)
        compiled.apply(given_change, found)
        assert encode_lines(found) == encode_lines(expected)


def as_text(change: BookChange) -> EncodedBookChange:
    fields = {name: getattr(change, name) for name in BookChange.__struct_fields__}
    bids, asks = (msgspec.Raw(msgspec.json.encode(fields.pop(name))) for name in ("bids", "asks"))
    return EncodedBookChange(**fields, bid_text=bids, ask_text=asks)


def emitted(record) -> tuple[object, ...]:
    assert isinstance(record, EncodedBookSnapshot)
    plain = record.decoded()
    return (plain.name, as_pairs(plain.bids), as_pairs(plain.asks), plain.timestamp)


@given(timed_changes, st.lists(specs, min_size=1, max_size=3), st.integers(1, 10))
def test_chunk_borders_do_not_show(steps, requested, size) -> None:
    changes = [change for change, _ in book_changes(steps)]
    whole = Computables(requested).apply(changes)
    chunked = Computables(requested)
    parts = [chunked.apply(changes[n : n + size]) for n in range(0, len(changes), size)]
    assert [described(record) for part in parts for record in part] == [
        described(record) for record in whole
    ]


def described(record) -> object:
    return record.decoded() if isinstance(record, EncodedBookSnapshot) else record
