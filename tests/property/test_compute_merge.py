"""The merge of chunks against the standard library's merge of whole streams."""

import heapq

from hypothesis import given
from hypothesis import strategies as st

from tardis_machine.computed.combine import Merger

sorted_streams = st.lists(st.lists(st.integers(0, 20)).map(sorted), max_size=5)
any_streams = st.lists(st.lists(st.integers(0, 20)), max_size=5)

Item = tuple[int, int, int]


def tagged(streams: list[list[int]]) -> list[list[Item]]:
    """Make every item of every stream tell where it came from: key, stream, place."""
    return [
        [(key, stream, place) for place, key in enumerate(keys)]
        for stream, keys in enumerate(streams)
    ]


def merged(streams: list[list[Item]], draw_size) -> list[Item]:
    """Merge through chunks of drawn sizes, fed only when they are needed."""
    merger: Merger[Item, int] = Merger(len(streams))
    rest = [list(stream) for stream in streams]
    out: list[Item] = []
    while not merger.is_done:
        while (needed := merger.needs()) is not None:
            feed(merger, needed, rest[needed], draw_size())
        taken = merger.take()
        assert taken or merger.is_done or merger.needs() is not None
        out += taken
    return out


def feed(merger: Merger[Item, int], stream: int, rest: list[Item], size: int) -> None:
    chunk, rest[:size] = rest[:size], []
    if not chunk:
        merger.finish(stream)
    else:
        merger.offer(stream, chunk, [key for key, _, _ in chunk])


@given(sorted_streams, st.data())
def test_merge_of_sorted_streams_equals_heapq(streams, data) -> None:
    items = tagged(streams)
    expected = list(heapq.merge(*items, key=lambda item: item[0]))
    assert merged(items, lambda: data.draw(st.integers(1, 4))) == expected


@given(any_streams, st.data())
def test_merge_of_unsorted_streams_always_takes_the_lowest_head(streams, data) -> None:
    items = tagged(streams)
    assert merged(items, lambda: data.draw(st.integers(1, 4))) == by_heads(items)


def by_heads(streams: list[list[Item]]) -> list[Item]:
    heads = [list(stream) for stream in streams]
    out = []
    while any(heads):
        lowest = min((stream for stream in heads if stream), key=lambda stream: stream[0][:2])
        out.append(lowest.pop(0))
    return out
