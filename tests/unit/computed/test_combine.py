import msgspec

from tardis_machine.computed.combine import Merger, local_keys
from tests.unit.computed.builders import trade


def take_all(*streams: list[int]) -> list[tuple[int, int]]:
    """Merge whole streams of keys; items say their stream and place."""
    merger: Merger[tuple[int, int], int] = Merger(len(streams))
    for index, keys in enumerate(streams):
        merger.offer(index, [(index, place) for place in range(len(keys))], keys)
        merger.finish(index)
    assert merger.needs() is None
    taken = merger.take()
    assert merger.is_done
    return taken


def test_items_come_in_the_order_of_their_keys() -> None:
    assert take_all([1, 4], [2, 3]) == [(0, 0), (1, 0), (1, 1), (0, 1)]


def test_ties_go_to_the_first_stream() -> None:
    assert take_all([5, 5], [5], [4, 5]) == [(2, 0), (0, 0), (0, 1), (1, 0), (2, 1)]


def test_item_behind_an_earlier_one_of_its_stream_follows_it_at_once() -> None:
    assert take_all([5, 1, 7], [4, 6]) == [(1, 0), (0, 0), (0, 1), (1, 1), (0, 2)]


def test_every_stream_is_needed_before_anything_is_released() -> None:
    merger: Merger[str, int] = Merger(2)
    assert merger.needs() == 0
    merger.offer(0, ["a"], [1])
    assert merger.needs() == 1
    assert merger.take() == []
    merger.offer(1, ["b"], [2])
    assert merger.needs() is None
    assert merger.take() == ["a"]
    assert merger.needs() == 0


def test_what_the_slowest_stream_could_still_precede_is_held_back() -> None:
    merger: Merger[str, int] = Merger(2)
    merger.offer(0, ["a1", "a3"], [1, 3])
    merger.offer(1, ["b3"], [3])
    assert merger.take() == ["a1", "a3"]
    merger.offer(0, ["a3 again"], [3])
    assert merger.take() == ["a3 again"]
    merger.finish(0)
    assert merger.take() == ["b3"]
    assert merger.needs() == 1


def test_finished_stream_holds_nothing_back() -> None:
    merger: Merger[str, int] = Merger(3)
    merger.finish(0)
    merger.offer(1, ["b"], [1])
    assert merger.needs() == 2
    merger.finish(2)
    assert merger.take() == ["b"]
    assert not merger.is_done
    merger.finish(1)
    assert merger.is_done


def test_late_chunk_is_released_at_once() -> None:
    merger: Merger[str, int] = Merger(2)
    merger.offer(0, ["a9"], [9])
    merger.offer(1, ["b9"], [9])
    assert merger.take() == ["a9"]
    merger.offer(0, ["a2"], [2])
    assert merger.take() == ["a2"]


def test_empty_chunk_leaves_its_stream_needed() -> None:
    merger: Merger[str, int] = Merger(1)
    merger.offer(0, [], [])
    assert merger.needs() == 0
    assert not merger.is_done


def test_merge_of_no_streams_is_done() -> None:
    merger: Merger[str, int] = Merger(0)
    assert merger.is_done
    assert merger.take() == []


def test_offered_lists_are_left_alone() -> None:
    merger: Merger[str, int] = Merger(1)
    items, keys = ["a", "b"], [1, 2]
    merger.offer(0, items, keys)
    merger.finish(0)
    merger.take()
    assert (items, keys) == (["a", "b"], [1, 2])


def test_raw_lines_merge_by_a_prefix_in_milliseconds() -> None:
    lines = [
        [b"2024-03-01T00:00:00.0019000Z a"],
        [b"2024-03-01T00:00:00.0011000Z b", b"2024-03-01T00:00:00.0021000Z c"],
    ]
    merger: Merger[bytes, bytes] = Merger(2)
    for index, stream in enumerate(lines):
        merger.offer(index, stream, [line[:23] for line in stream])
        merger.finish(index)
    assert [line[-1:] for line in merger.take()] == [b"a", b"b", b"c"]


def test_local_keys_of_three_and_six_digits_compare_by_time() -> None:
    texts = ["2024-03-01T00:00:00.001Z", "2024-03-01T00:00:00.001001Z", "2024-03-01T00:00:01Z"]
    records = [msgspec.structs.replace(trade(1, 1), local_timestamp=text) for text in texts]
    keys = local_keys(records)
    assert keys == sorted(keys)
    assert keys[0] == "2024-03-01T00:00:00.001000Z"
