"""Ranges of a log that one reader is not to read: what it gave up although older events wait.

A range is a file named after its start. It holds where the range ends and one chunk that is read
instead: its head counts the events of the range, its body has the few that are kept, as packed
records. Other readers still read the range itself. A segment within it can be deleted once they
have passed it.
"""

import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tardis_machine.sinks.storage.chunks import HEAD_BYTES, Flags, is_sound, pack_chunk, parse_head
from tardis_machine.sinks.storage.directory import PRIVATE
from tardis_machine.sinks.storage.reader import Chunk

SUFFIX = ".range"
MAX_RANGE_BYTES = 16 * 1_048_576
_NOTE = struct.Struct("<QI")
"""Where the range ends, and how many of its events are kept."""


class SkippedRange(NamedTuple):
    """A range, and what is read instead of it."""

    chunk: Chunk
    """Its events are those that are kept, then as many as are given up."""
    kept: int

    @property
    def dropped(self) -> int:
        """Return how many events are given up."""
        return self.chunk.head.events - self.kept

    def followed_by(self, later: "SkippedRange") -> "SkippedRange | None":
        """Return this range and the next one as one; None when they are too far or too much."""
        first, second = self.chunk, later.chunk
        if second.start != first.end or second.end - first.start > MAX_RANGE_BYTES:
            return None
        head = first.head._replace(
            events=first.head.events + second.head.events,
            number=second.head.number,
            body_bytes=len(first.body) + len(second.body),
        )
        both = Chunk(head, first.context, first.body + second.body, first.start, second.end)
        return SkippedRange(both, self.kept + later.kept)


class SkippedRanges:
    """The ranges of one reader that it has not passed; only the process that reads changes them.

    Args:
        directory: where they are; it need not exist.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        found = (_load(path) for path in sorted(directory.glob(f"*{SUFFIX}")))
        self._ranges = {each.chunk.start: each for each in found if each is not None}

    def __bool__(self) -> bool:
        return bool(self._ranges)

    @property
    def start(self) -> int:
        """Return where the first range begins; there must be one."""
        return min(self._ranges)

    @property
    def end(self) -> int:
        """Return where the last range ends; 0 without any."""
        return max((each.chunk.end for each in self._ranges.values()), default=0)

    @property
    def bytes(self) -> int:
        """Return how many bytes of the log they are."""
        return sum(each.chunk.end - each.chunk.start for each in self._ranges.values())

    def at(self, offset: int) -> SkippedRange | None:
        """Return the range that begins at an offset."""
        return self._ranges.get(offset)

    def dropped_after(self, number: int) -> int:
        """Return how many events are given up in ranges behind a chunk."""
        ahead = (each for each in self._ranges.values() if each.chunk.head.number > number)
        return sum(each.dropped for each in ahead)

    def covers(self, start: int, end: int) -> bool:
        """Say whether every byte between two offsets is in a range."""
        for each in sorted(self._ranges.values(), key=lambda found: found.chunk.start):
            if each.chunk.start <= start < each.chunk.end:
                start = each.chunk.end
        return start >= end

    def add(self, skipped: SkippedRange, read_number: int) -> None:
        """Note a range, together with the one before unless that was read.

        Args:
            skipped: behind all others.
            read_number: number of the last chunk that was read.

        Raises:
            OSError: it cannot be written.
        """
        last = self._ranges[max(self._ranges)] if self._ranges else None
        if last is not None and last.chunk.head.number > read_number:
            skipped = last.followed_by(skipped) or skipped
        self._directory.mkdir(mode=PRIVATE, exist_ok=True)
        path = self._path(skipped.chunk.start)
        draft = path.with_suffix(".draft")
        draft.write_bytes(_pack(skipped))
        draft.replace(path)
        self._ranges[skipped.chunk.start] = skipped

    def forget_before(self, offset: int) -> None:
        """Delete the notes of ranges that end at or before a position."""
        for each in [each for each in self._ranges.values() if each.chunk.end <= offset]:
            # One that stays is deleted with the log.
            with suppress(OSError):
                self._path(each.chunk.start).unlink(missing_ok=True)
            del self._ranges[each.chunk.start]

    def _path(self, start: int) -> Path:
        return self._directory / f"{start:020d}{SUFFIX}"


def range_of(chunks: Sequence[Chunk], context: bytes, records: bytes, kept: int) -> SkippedRange:
    """Return the range that chunks in a row are, with the packed records that are kept of it."""
    first, last = chunks[0], chunks[-1]
    # One that was written again after a failed flush has an earlier number.
    newest = max((chunk.head for chunk in chunks), key=lambda head: head.number)
    head = first.head._replace(
        flags=Flags.RECORDS,
        number=newest.number,
        events=newest.first_event + newest.events - first.head.first_event,
    )
    return SkippedRange(Chunk(head, context, records, first.start, last.end), kept)


def _pack(skipped: SkippedRange) -> bytes:
    _, context, body, _, end = skipped.chunk
    head = skipped.chunk.head
    parts = pack_chunk(
        context,
        body,
        events=head.events,
        number=head.number,
        first_event=head.first_event,
        appended_us=head.appended_us,
        flags=head.flags,
    )
    return b"".join((_NOTE.pack(end, skipped.kept), *parts))


def _load(path: Path) -> SkippedRange | None:
    """Read a note; None when it is not whole, and its range is read like any other."""
    data = path.read_bytes()
    head = parse_head(data[_NOTE.size : _NOTE.size + HEAD_BYTES])
    content = data[_NOTE.size + HEAD_BYTES :]
    if head is None or not is_sound(head, content):
        return None
    end, kept = _NOTE.unpack_from(data)
    context, body = content[: head.context_bytes], content[head.context_bytes :]
    return SkippedRange(Chunk(head, context, body, int(path.stem), end), kept)
