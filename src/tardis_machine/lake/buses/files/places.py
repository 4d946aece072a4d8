"""Places in a log of the files bus.

A place is a segment and a byte in it, always at the border of a block; behind the last block of a
closed segment it is the start of the next one. Segments of this bus are numbered without gaps, see
`sinks.log`. So one that was read to its end can be removed, and one that is missing between two
places was removed before it was read: its events are lost.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tardis_machine.buses.files.log import (
    BLOCK_HEADER,
    DURABLE_FILE,
    durable_end,
    open_segment,
    segment_path,
    segments,
)
from tardis_machine.lake.buses.client import Span
from tardis_machine.lake.buses.positions import Position, Range


class Place(NamedTuple):
    """A border between blocks of a log."""

    segment: int
    byte: int

    @classmethod
    def of(cls, position: Position) -> "Place":
        """Read a position of a checkpoint."""
        return cls(position["segment"], position["byte"])

    @property
    def position(self) -> Position:
        """Return it in the form of a checkpoint."""
        return {"segment": self.segment, "byte": self.byte}


class Block(NamedTuple):
    """A block by its end and size."""

    end: Place
    size: int


def ends_of(wanted: Range) -> tuple[Place, Place]:
    """Return the places between which a range lies."""
    return Place.of(wanted.start), Place.of(wanted.end)


def segments_between(start: Place, end: Place) -> range:
    """Return the segments between two places."""
    return range(start.segment, end.segment + (end.byte > 0))


def is_log(folder: Path) -> bool:
    """Say whether a folder is a log, be it one without any segment left."""
    return (folder / DURABLE_FILE).exists() or bool(segments(folder))


def span_of(log: Path) -> Span:
    """Return the start of the oldest segment and the durable end."""
    newest, found = _durable_place(log), segments(log)
    oldest = Place(found[0].number, 0) if found else newest
    return Span(oldest.position, max(oldest, newest).position)


def blocks_after(log: Path, start: Place) -> Iterator[Block]:
    """Yield the durable blocks after a place, reading only their headers."""
    end = _durable_place(log)
    for segment in segments(log):
        if not start.segment <= segment.number <= end.segment:
            continue
        with open_segment(log, segment.number) as file:
            before = start.byte if segment.number == start.segment else 0
            size = segment.path.stat().st_size if segment.is_closed else None
            for byte in _block_ends(file, before):
                is_last = byte == size
                place = Place(segment.number + is_last, 0 if is_last else byte)
                if place > end:
                    return
                yield Block(place, byte - before)
                before = byte


def _durable_place(log: Path) -> Place:
    end = Place(*durable_end(log))
    if not end.byte or segment_path(log, end.segment, is_closed=False).exists():
        return end
    return Place(end.segment + 1, 0)


def _block_ends(file: BinaryIO, start: int) -> Iterator[int]:
    position = start
    while True:
        file.seek(position)
        header = file.read(BLOCK_HEADER.size)
        if len(header) < BLOCK_HEADER.size:
            return
        position += BLOCK_HEADER.size + BLOCK_HEADER.unpack(header)[2]
        yield position
