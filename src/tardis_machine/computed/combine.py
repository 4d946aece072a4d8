"""Merge several streams by time, chunk by chunk.

Each stream delivers chunks; the merge releases whatever can no longer be preceded by anything that
is still to come. Equal keys come out in the order of the streams, and each stream keeps its own
order. Nothing waits here: the caller asks which stream to read next.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Generic, TypeVar

from tardis_machine.model.records import Record
from tardis_machine.model.time import parse_us, us_text

Item = TypeVar("Item")
Key = TypeVar("Key", str, bytes, int)

_local_timestamp = attrgetter("local_timestamp")


def local_keys(records: Iterable[Record]) -> list[str]:
    """Return the arrival times of records as text that sorts by time, in microseconds."""
    return [
        text if len(text) == 27 else _microsecond_key(text)
        for text in map(_local_timestamp, records)
    ]


def _microsecond_key(text: str) -> str:
    return f"{text[:-1]}000Z" if len(text) == 24 else us_text(parse_us(text))


class Merger(Generic[Item, Key]):
    """Merges the chunks of a fixed number of streams.

    Feed the stream that `needs` names until it names none, `take` what can be released, and begin
    again until `is_done`. A stream is needed only when nothing can be released without it, so the
    merge holds about one chunk per stream.
    """

    def __init__(self, streams: int) -> None:
        self._inputs: list[_Input[Item, Key]] = [_Input() for _ in range(streams)]

    @property
    def is_done(self) -> bool:
        """Say whether every stream is finished and everything was taken."""
        return all(each.is_finished and not each.items for each in self._inputs)

    def offer(self, stream: int, items: Sequence[Item], keys: list[Key]) -> None:
        """Add a chunk of a stream: its items and beside them their keys."""
        self._inputs[stream].add(items, keys)

    def finish(self, stream: int) -> None:
        """Declare that a stream has no more chunks."""
        self._inputs[stream].is_finished = True

    def needs(self) -> int | None:
        """Return the stream without whose next chunk nothing can be released, or None."""
        slowest = self._slowest()
        if slowest is None or self._inputs[slowest].items:
            return None
        return slowest

    def take(self) -> list[Item]:
        """Release, in order, every item that nothing still to come can precede."""
        slowest = self._slowest()
        if slowest is None:
            return _merged([each.cut(len(each.items)) for each in self._inputs])
        bound = self._inputs[slowest].last
        if bound is None:
            return []
        parts = []
        for index, each in enumerate(self._inputs):
            # The slowest stream may continue with its last key; ties go to the lower index.
            bisect = bisect_right if index <= slowest else bisect_left
            parts.append(each.cut(bisect(each.keys, bound)))
        return _merged(parts)

    def _slowest(self) -> int | None:
        """Return the unfinished stream that is furthest behind, the first of equals."""
        fed: list[tuple[Key, int]] = []
        for stream, each in enumerate(self._inputs):
            if each.is_finished:
                continue
            if each.last is None:
                return stream
            fed.append((each.last, stream))
        return min(fed)[1] if fed else None


class _Input(Generic[Item, Key]):
    """What was offered of one stream and is not released yet."""

    __slots__ = ("is_finished", "items", "keys", "last")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.keys: list[Key] = []
        self.last: Key | None = None
        """The highest key seen so far, also of items that are released already."""
        self.is_finished = False

    def add(self, items: Sequence[Item], keys: list[Key]) -> None:
        if not items:
            return
        self.items += items
        self.keys += self._rising(keys)
        self.last = self.keys[-1]

    def _rising(self, keys: list[Key]) -> list[Key]:
        """Lift keys that lie behind an earlier one of their stream to that one.

        Such an item becomes the head of its stream when the earlier one was released, and is then
        next in any case.
        """
        highest = keys[0] if self.last is None else self.last
        if highest <= keys[0] and sorted(keys) == keys:
            return keys
        rising = []
        for key in keys:
            if key > highest:
                highest = key
            rising.append(highest)
        return rising

    def cut(self, count: int) -> tuple[list[Item], list[Key]]:
        """Remove and return the first `count` items and their keys."""
        part = self.items[:count], self.keys[:count]
        del self.items[:count], self.keys[:count]
        return part


def _merged(parts: Sequence[tuple[list[Item], list[Key]]]) -> list[Item]:
    """Merge sorted parts; items of equal keys keep the order of the parts."""
    parts = [part for part in parts if part[0]]
    if len(parts) <= 1:
        return parts[0][0] if parts else []
    items = list(chain.from_iterable(items for items, _ in parts))
    keys = list(chain.from_iterable(keys for _, keys in parts))
    # The sort is stable and made for sorted runs: it moves whole stretches at a time.
    return [items[index] for index in sorted(range(len(keys)), key=keys.__getitem__)]
