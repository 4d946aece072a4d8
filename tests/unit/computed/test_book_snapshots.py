import msgspec
import pytest
from msgspec import UNSET

from tardis_machine.computed.book_snapshots import BookSnapshots
from tardis_machine.model.data_types import BookSnapshotSpec
from tardis_machine.model.records import BookSnapshot
from tests.unit.computed.builders import at, change, decoded, local, shown, snapshot, triggered

MISSING = (UNSET, UNSET)


def single(data_type, records):
    """Return what each record triggers of one data type: a snapshot or None."""
    results = triggered([data_type], records)
    assert all(len(result) <= 1 for result in results)
    return [result[0] if result else None for result in results]


def test_snapshot_carries_every_field_of_its_spec() -> None:
    [record] = single("book_snapshot_2_0ms", [snapshot([(99, 1), (98, 2)], [(101, 3)], 5)])
    assert shown(record) == ([(99, 1), (98, 2)], [(101, 3), MISSING])
    assert (record.symbol, record.exchange, record.name) == (
        "XBTUSD",
        "bitmex",
        "book_snapshot_2_0ms",
    )
    assert (record.depth, record.interval, record.grouping) == (2, 0, UNSET)
    assert (record.timestamp, record.local_timestamp) == (at(5), local(5))


def test_missing_levels_are_empty_objects_on_the_wire() -> None:
    snapshots = BookSnapshots([BookSnapshotSpec(3, 0)])
    out = []
    snapshots.apply(snapshot([(99, 1)], []), out)
    line = msgspec.json.decode(msgspec.json.encode(out[0]))
    assert line["bids"] == [{"price": 99, "amount": 1}, {}, {}]
    assert line["asks"] == [{}, {}, {}]


def test_trimmed_snapshot_leaves_missing_levels_out() -> None:
    specs = [BookSnapshotSpec(3, 0), BookSnapshotSpec(3, 0, 10), BookSnapshotSpec(3, 1000)]
    out = []
    BookSnapshots(specs, trim_levels=True).apply(snapshot([(99, 1)], []), out)
    assert [shown(decoded(record)) for record in out] == [
        ([(99, 1)], []),
        ([(90, 1)], []),
        ([(99, 1)], []),
    ]


def test_change_below_the_visible_levels_emits_nothing() -> None:
    records = [snapshot([(99, 1), (98, 2), (97, 3)], [(101, 1)]), change([(97, 4), (96, 1)])]
    assert single("book_snapshot_2_0ms", records)[1] is None


def test_removed_level_brings_the_next_one_up() -> None:
    records = [snapshot([(99, 1), (98, 2), (97, 3)], []), change([(99, 0)])]
    assert shown(single("book_snapshot_2_0ms", records)[1])[0] == [(98, 2), (97, 3)]


def test_repeated_snapshot_emits_nothing() -> None:
    records = [snapshot([(99, 1)], [(101, 1)]), snapshot([(99, 1)], [(101, 1)])]
    assert single("book_snapshot_5_0ms", records)[1] is None


def test_level_that_is_removed_and_set_again_in_one_change_emits_nothing() -> None:
    records = [snapshot([(99, 1)], [(101, 1)]), change([(99, 0), (99, 1)])]
    assert single("quote", records)[1] is None


def test_empty_first_snapshot_emits_nothing() -> None:
    assert single("quote", [snapshot([], [])]) == [None]


def test_crossed_ask_removes_bids_in_the_same_snapshot() -> None:
    records = [snapshot([(100, 1), (99, 2)], [(101, 1)]), change([], [(98, 5)])]
    assert shown(single("book_snapshot_2_0ms", records)[1]) == (
        [MISSING, MISSING],
        [(98, 5), (101, 1)],
    )


def test_quote_is_a_snapshot_of_depth_one() -> None:
    [record] = single("quote_1s", [snapshot([(99, 1), (98, 1)], [(101, 1)])])
    assert isinstance(record, BookSnapshot)
    assert (record.name, record.depth, record.interval) == ("quote_1s", 1, 1000)


def test_first_periodic_snapshot_comes_at_once_with_its_own_time() -> None:
    [record] = single("book_snapshot_1_1s", [snapshot([(99, 1)], [(101, 1)], 132)])
    assert record.timestamp == at(132)


def test_periodic_snapshot_shows_the_book_before_the_change_of_a_later_interval() -> None:
    first, second, third, fourth = single(
        "book_snapshot_1_1s",
        [
            snapshot([(99, 1)], [(101, 1)], 132),
            change([(99, 2)], [], 10_132),
            change([(99, 3)], [], 12_132),
            change([(50, 1)], [], 12_500),
        ],
    )
    assert shown(first)[0] == [(99, 1)]
    assert second is None
    assert shown(third)[0] == [(99, 2)]
    assert (third.timestamp, third.local_timestamp) == (at(11_000), local(12_132))
    assert fourth is None


def test_interval_ends_where_the_book_was_last_touched_even_below_the_visible_levels() -> None:
    records = [
        snapshot([(99, 1), (98, 1)], [], 0),
        change([(99, 2)], [], 1_100),
        change([(98, 2)], [], 1_900),
        change([(98, 3)], [], 9_000),
    ]
    assert single("quote_1s", records)[3].timestamp == at(2_000)


def test_change_of_an_earlier_interval_emits_nothing() -> None:
    records = [
        snapshot([(99, 1)], [], 5_000),
        change([(99, 2)], [], 5_100),
        change([(99, 3)], [], 3_000),
        change([(99, 4)], [], 3_500),
    ]
    assert single("quote_1s", records)[1:] == [None, None, None]


def test_unchanged_visible_levels_emit_nothing_at_the_end_of_an_interval() -> None:
    records = [snapshot([(99, 1)], [], 0), change([(98, 1)], [], 1_000), change([], [], 5_000)]
    assert single("quote_1s", records)[1:] == [None, None]


def test_change_that_is_undone_within_an_interval_still_counts_as_one() -> None:
    records = [
        snapshot([(99, 1)], [], 0),
        change([(99, 2)], [], 100),
        change([(99, 1)], [], 200),
        change([], [], 1_000),
    ]
    assert shown(single("quote_1s", records)[3])[0] == [(99, 1)]


def test_grouped_snapshot_sums_levels_and_names_its_step() -> None:
    [record] = single(
        "book_snapshot_2_grouped10_0ms",
        [snapshot([(99, 1), (95, 2), (89, 4), (70, 8)], [(101, 1), (110, 2), (111, 4)])],
    )
    assert shown(record) == ([(90, 3), (80, 4)], [(110, 3), (120, 4)])
    assert record.grouping == 10


def test_level_inserted_behind_the_last_visible_group_joins_it() -> None:
    records = [snapshot([(99, 1), (89, 2), (75, 4)], []), change([(81, 8)])]
    assert shown(single("book_snapshot_2_grouped10_0ms", records)[1])[0] == [(90, 1), (80, 10)]


def test_change_behind_the_visible_groups_emits_nothing() -> None:
    records = [snapshot([(99, 1), (89, 2), (75, 4)], []), change([(74, 8), (75, 5)])]
    assert single("book_snapshot_2_grouped10_0ms", records)[1] is None


def test_snapshots_come_in_the_order_of_the_request() -> None:
    records = [snapshot([(99, 1)], [], 0), change([(99, 2)], [], 100), change([(99, 3)], [], 1_000)]
    names = ["quote_1s", "quote", "book_snapshot_1_500ms"]
    last = triggered(names, records)[2]
    assert [record.name for record in last] == names
    assert [shown(record)[0] for record in last] == [[(99, 2)], [(99, 3)], [(99, 2)]]


def test_snapshots_with_and_without_crossed_levels_do_not_disturb_each_other() -> None:
    specs = [
        BookSnapshotSpec(2, 0, name="raw", removes_crossed_levels=False),
        BookSnapshotSpec(2, 0, name="clean"),
    ]
    snapshots = BookSnapshots(specs)
    snapshots.apply(snapshot([(100, 1)], [(101, 1)]), [])
    out = []
    snapshots.apply(change([], [(98, 5)]), out)
    raw, clean = (shown(decoded(record)) for record in out)
    assert raw == ([(100, 1), MISSING], [(98, 5), (101, 1)])
    assert clean == ([MISSING, MISSING], [(98, 5), (101, 1)])


@pytest.mark.parametrize(
    "data_type", ["book_snapshot_0_0ms", "book_snapshot_0_1s", "book_snapshot_0_grouped10_0ms"]
)
def test_depth_without_levels_emits_nothing(data_type) -> None:
    records = [snapshot([(99, 1)], [], 0), change([(99, 2)], [], 5_000)]
    assert single(data_type, records) == [None, None]
