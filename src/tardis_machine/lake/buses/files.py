"""Read the files bus: blocks of records between two places of a log.

A position is a segment and a byte in it, always at the border of a block. What lies before the
durable end of a log never changes, so a range stands for the same events for ever.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from tardis_machine.lake.buses.client import BusClient, Loss, Page, Planner, ReadPolicy, Span
from tardis_machine.lake.buses.errors import BusError
from tardis_machine.lake.buses.planning import LanePlanner
from tardis_machine.lake.buses.positions import Lane, Position, Range
from tardis_machine.lake.buses.rows import make_rows
from tardis_machine.sinks.files_settings import FilesSettings
from tardis_machine.sinks.log import (
    BLOCK_HEADER,
    RECORD_HEADER,
    LogError,
    durable_end,
    open_segment,
    payloads_of,
    segments,
)

RECORD_BYTES = 128
"""About what a record takes at least; limits by rows are kept by bytes, without reading them."""

_NO_TIME = pa.scalar(None, pa.timestamp("us", "UTC"))


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
        """Return it as checkpoints keep it."""
        return {"segment": self.segment, "byte": self.byte}


class FilesBus:
    """The files bus, read from the directory that the settings of publishing name."""

    name = FilesSettings.bus

    def __init__(self, settings: FilesSettings) -> None:
        assert settings.dir is not None
        self._directory = settings.dir.absolute()
        self._segment_bytes = settings.segment_bytes

    def connect(self) -> "FilesClient":
        """Return a client; it opens files when it reads them."""
        return FilesClient(self._directory, self._segment_bytes)

    def planner(self, policy: ReadPolicy) -> Planner:
        """Return what plans batches."""
        return LanePlanner(self.connect(), policy)


class FilesClient(BusClient):
    """Reads the streams below one directory."""

    def __init__(self, directory: Path, segment_bytes: int) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def spans(self) -> Mapping[Lane, Span]:
        """Return the oldest segment and the durable end of every stream."""
        if not self._directory.is_dir():
            raise BusError(
                f"There is no files bus at {self._directory}. Publish to it first, "
                "or name another directory with --files-dir."
            )
        logs = (path for path in sorted(self._directory.iterdir()) if path.is_dir())
        return {Lane(path.name): _span(path) for path in logs if segments(path)}

    def distance(self, start: Position, end: Position) -> int:
        """Return about how many records fit between two places, as if segments were full."""
        first, last = Place.of(start), Place.of(end)
        if last <= first:
            return 0
        full = (last.segment - first.segment) * self._segment_bytes
        return max((full + last.byte - first.byte) // RECORD_BYTES, 1)

    def advance(self, lane: Lane, start: Position, rows: int) -> Position:
        """Return the border of blocks that lies about so many records on."""
        log, place, left = self._directory / lane.stream, Place.of(start), rows * RECORD_BYTES
        for after in _borders(log, place):
            left -= after.byte - (place.byte if after.segment == place.segment else 0)
            place = after
            if left <= 0:
                break
        return place.position

    def cut(self, wanted: Range, parts: int) -> list[Range]:
        """Cut at borders of blocks, in parts of about the same size."""
        log, end = self._directory / wanted.lane.stream, Place.of(wanted.end)
        borders = [place for place in _borders(log, Place.of(wanted.start)) if place <= end]
        step = max(len(borders) // parts, 1)
        inner = [place.position for place in borders[step - 1 :: step] if place < end]
        places = [wanted.start, *inner, wanted.end]
        return [Range(wanted.lane, one, other, None) for one, other in pairwise(places)]

    def loss(self, lane: Lane, start: Position, span: Span) -> Loss | None:
        """Say whether retention removed segments that were not read."""
        first, oldest, newest = Place.of(start), Place.of(span.oldest), Place.of(span.newest)
        if newest < first:
            return Loss(1, is_new_lane=True)
        return Loss(1) if first.segment < oldest.segment and first != (0, 0) else None

    def confirmed_loss(self, wanted: Range, missing: int) -> int:
        """Return nothing lost: rows were guessed from sizes, and a damaged block is an error."""
        return 0

    def is_before(self, one: Position, other: Position) -> bool:
        """Compare segments, then bytes."""
        return Place.of(one) < Place.of(other)

    def read(self, wanted: Range) -> Iterator[Page]:
        """Read block after block."""
        log, end = self._directory / wanted.lane.stream, Place.of(wanted.end)
        start = Place.of(wanted.start)
        for segment in (each.number for each in segments(log)):
            if not start.segment <= segment <= end.segment:
                continue
            with open_segment(log, segment) as file:
                first = start.byte if segment == start.segment else 0
                last = end.byte if segment == end.segment else None
                for begins, ends, payload in payloads_of(file, first, last):
                    rows = _rows(wanted.lane, f"{segment}:{begins}:", payload)
                    yield Page(rows, Place(segment, ends).position)


def _span(log: Path) -> Span:
    oldest = Place(segments(log)[0].number, 0)
    newest = max(Place(*durable_end(log)), oldest)
    return Span(oldest.position, newest.position)


def _borders(log: Path, start: Place) -> Iterator[Place]:
    """Yield the ends of the blocks after a place, reading only their headers."""
    end = Place(*durable_end(log))
    for segment in (each.number for each in segments(log)):
        if not start.segment <= segment <= end.segment:
            continue
        with open_segment(log, segment) as file:
            first = start.byte if segment == start.segment else 0
            for byte in _block_ends(file, first):
                if (segment, byte) > end:
                    return
                yield Place(segment, byte)


def _block_ends(file: BinaryIO, start: int) -> Iterator[int]:
    position = start
    while True:
        file.seek(position)
        header = file.read(BLOCK_HEADER.size)
        if len(header) < BLOCK_HEADER.size:
            return
        position += BLOCK_HEADER.size + BLOCK_HEADER.unpack(header)[2]
        yield position


def _rows(lane: Lane, prefix: str, payload: bytes) -> pa.RecordBatch:
    """Return the envelopes of one block; targets, keys and headers are in the envelope, too."""
    unpack, size = RECORD_HEADER.unpack_from, RECORD_HEADER.size
    envelopes: list[bytes] = []
    position, end = 0, len(payload)
    while position < end:
        target, key, headers, length = unpack(payload, position)
        position += size + target + key + headers
        envelopes.append(payload[position : position + length])
        position += length
    if position != end:
        raise LogError(f"{lane.stream}: the records of block {prefix[:-1]} do not fill it.")
    count = len(envelopes)
    return make_rows(
        FilesSettings.bus,
        lane,
        pa.array([f"{prefix}{number}" for number in range(count)], pa.string()),
        pa.repeat(_NO_TIME, count),
        pa.array(envelopes, pa.binary()),
    )
