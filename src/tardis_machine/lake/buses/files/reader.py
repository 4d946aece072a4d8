"""Read the files bus: blocks of records between two places of a log.

What lies before the durable end of a log never changes, so a range stands for the same events for
ever.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from tardis_machine.buses.files.ids import ensure_id, read_id
from tardis_machine.buses.files.log import (
    RECORD_HEADER,
    LogError,
    open_segment,
    payloads_of,
    segments,
)
from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.lake.buses.client import BusClient, Loss, Page, Planner, ReadPolicy, Span
from tardis_machine.lake.buses.files.places import (
    Place,
    blocks_after,
    ends_of,
    is_log,
    segments_between,
    span_of,
)
from tardis_machine.lake.buses.planning import LanePlanner
from tardis_machine.lake.buses.positions import Lane, Position, Range
from tardis_machine.lake.buses.rows import make_rows
from tardis_machine.lake.errors import BusError

RECORD_BYTES = 256
"""About what a record of a trade takes; limits by rows are kept by bytes, without reading them."""
PAGE_RECORDS = 8192
"""Small blocks are put together up to about so many records."""

_TIME = pa.timestamp("us", "UTC")


class FilesBus:
    """The files bus, read from the directory that the settings of publishing name."""

    name = FilesSettings.bus

    def __init__(self, settings: FilesSettings) -> None:
        assert settings.dir is not None
        self._directory = settings.dir.absolute()
        self._segment_bytes = settings.segment_bytes

    @property
    def endpoint(self) -> str:
        """Return the id of the directory, or its path where none can be written."""
        check_directory(self._directory)
        try:
            return ensure_id(self._directory)
        except OSError:
            return str(self._directory)

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
        self._ids: dict[str, str] = {}

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def spans(self) -> Mapping[Lane, Span]:
        """Return the oldest segment and the durable end of every stream."""
        check_directory(self._directory)
        folders = (path for path in sorted(self._directory.iterdir()) if path.is_dir())
        logs = [path for path in folders if is_log(path)]
        self._ids = {path.name: id_ for path in logs if (id_ := _stream_id(path))}
        return {Lane(path.name): span_of(path) for path in logs}

    def stream_ids(self) -> Mapping[str, str]:
        """Return what the id files of the streams hold."""
        return self._ids

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
        for block in blocks_after(log, place):
            place, left = block.end, left - block.size
            if left <= 0:
                break
        return place.position

    def cut(self, wanted: Range, parts: int) -> list[Range]:
        """Cut at borders of blocks, in parts of about the same size."""
        log, start, end = self._directory / wanted.lane.stream, *ends_of(wanted)
        # The number of parts was meant for full segments.
        size = self.distance(wanted.start, wanted.end) * RECORD_BYTES / parts
        inner, left = [], size
        for block in blocks_after(log, start):
            if block.end >= end:
                break
            left -= block.size
            if left <= 0:
                inner.append(block.end.position)
                left = size
        borders = [wanted.start, *inner, wanted.end]
        return [Range(wanted.lane, one, other, None) for one, other in pairwise(borders)]

    def loss(self, lane: Lane, start: Position, span: Span) -> Loss | None:
        """Say whether retention removed segments that were not read."""
        first, oldest, newest = Place.of(start), Place.of(span.oldest), Place.of(span.newest)
        if newest < first:
            return Loss(1, is_new_lane=True)
        return Loss(oldest.segment - first.segment) if first.segment < oldest.segment else None

    def confirmed_loss(self, wanted: Range, missing: int) -> int:
        """Return how many segments are gone: rows were guessed from sizes and prove nothing."""
        return len(self._missing(wanted))

    def is_before(self, one: Position, other: Position) -> bool:
        """Compare segments, then bytes."""
        return Place.of(one) < Place.of(other)

    def read(self, wanted: Range) -> Iterator[Page]:
        """Read block after block, several small ones together."""
        log, start, end = self._directory / wanted.lane.stream, *ends_of(wanted)
        missing = self._missing(wanted)
        rows = Rows(wanted.lane)
        if missing:
            yield Page(rows.taken(), wanted.start, len(missing))
        for segment in segments_between(start, end):
            if segment in missing:
                continue
            with open_segment(log, segment) as file:
                first = start.byte if segment == start.segment else 0
                last = end.byte if segment == end.segment else None
                for begins, ends, payload in payloads_of(file, first, last):
                    rows.add(f"{segment}:{begins}:", payload)
                    if rows.count >= PAGE_RECORDS:
                        yield Page(rows.taken(), Place(segment, ends).position)
        if rows.count:
            yield Page(rows.taken(), wanted.end)

    def _missing(self, wanted: Range) -> set[int]:
        """Return the segments of a range that are gone."""
        there = {each.number for each in segments(self._directory / wanted.lane.stream)}
        return set(segments_between(*ends_of(wanted))) - there


def check_directory(directory: Path) -> None:
    """Raise BusError when there is no such directory."""
    if not directory.is_dir():
        raise BusError(
            f"There is no files bus at {directory}. Publish to it first, "
            "or set --files-dir to another directory."
        )


def _stream_id(log: Path) -> str | None:
    """Return the id of a stream; one that an older version wrote gets it now."""
    try:
        return ensure_id(log)
    except OSError:
        return read_id(log)


class Rows:
    """Collects the envelopes of blocks; destinations, keys and headers are in the envelope, too."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._envelopes: list[bytes] = []
        self._positions: list[str] = []

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(self._envelopes)

    def add(self, prefix: str, payload: bytes) -> None:
        """Add one block, whose records are numbered behind a prefix."""
        unpack, size, envelopes = RECORD_HEADER.unpack_from, RECORD_HEADER.size, self._envelopes
        before, position, end = len(envelopes), 0, len(payload)
        while position < end:
            destination, key, headers, length = unpack(payload, position)
            position += size + destination + key + headers
            envelopes.append(payload[position : position + length])
            position += length
        if position != end:
            block = f"{self._lane.stream}: the records of block {prefix[:-1]}"
            raise LogError(f"{block} do not fill it.")
        self._positions += [f"{prefix}{number}" for number in range(len(envelopes) - before)]

    def taken(self) -> pa.RecordBatch:
        """Return the rows, and start over."""
        count = self.count
        rows = make_rows(
            FilesSettings.bus,
            self._lane,
            pa.array(self._positions, pa.string()),
            pa.nulls(count, _TIME),
            pa.array(self._envelopes, pa.binary()),
        )
        self._envelopes, self._positions = [], []
        return rows
