"""Giving up the newest events of a log for one bus, while its older ones wait.

They stand behind the others in the same files, so a range is noted that this bus is not to read.
"""

from collections.abc import Iterator

from tardis_machine.bronze.series import Origin
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.delivery.batches import CONTROL_CASES
from tardis_machine.sinks.delivery.context import StreamContext, pack_context
from tardis_machine.sinks.delivery.feed import Feed
from tardis_machine.sinks.delivery.feeds import LogFeed
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.records import RecordPacker
from tardis_machine.sinks.storage.chunks import Flags
from tardis_machine.sinks.storage.in_flight import ChunkInFlight
from tardis_machine.sinks.storage.reader import Chunk, ChunkReader
from tardis_machine.sinks.storage.skipped import MAX_RANGE_BYTES, SkippedRange, range_of
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

_CONTROL_MARKS = tuple(f'"type":"{case.value}"'.encode() for case in CONTROL_CASES)
_CONTEXT = pack_context(
    StreamContext(stream="skipped", producer_id="", origin=Origin.REPLAY, meta={})
)


def skip_newest(feed: LogFeed, size_bytes: int) -> tuple[int, int]:
    """Give up about so many bytes at the end of a log.

    Returns:
        Bytes and events that were given up, the control events among them not counted.
    """
    skipped_bytes = dropped = 0
    ranges = feed.feed.skipped
    assert ranges is not None
    for chunks in _newest(feed, size_bytes):
        skipped = _range(feed.feed, chunks)
        try:
            ranges.add(skipped, feed.feed.number)
        except OSError as error:
            # The backlog stays beyond its bound until the disk has room for a note.
            log.error("events not dropped: no note can be written", error=error.strerror)
            break
        skipped_bytes += skipped.chunk.end - skipped.chunk.start
        dropped += skipped.dropped
    return skipped_bytes, dropped


def control_events(feed: Feed, chunk: Chunk, place: ChunkInFlight) -> list[Event]:
    """Return the errors and disconnects of a chunk, which are never dropped."""
    is_packed = chunk.head.flags & Flags.RECORDS
    if not is_packed and not any(mark in chunk.body for mark in _CONTROL_MARKS):
        return []
    events = feed.events_of(chunk, place)
    return [event for event in events if event.series.case in CONTROL_CASES]


def _newest(feed: LogFeed, size_bytes: int) -> Iterator[list[Chunk]]:
    """Yield the last chunks that were not read, in rows without bad bytes between them.

    One that was settled in part before a restart is read: lines of a range are not those of its
    chunks, so a saved position within it would mean others.
    """
    assert feed.feed.skipped is not None
    end = feed.end
    begun_at = feed.feed.position.offset if feed.feed.position.line else None
    offset = max(feed.feed.offset, feed.feed.skipped.end)
    row: list[Chunk] = []
    reader = ChunkReader(feed.directory.path)
    try:
        while offset < end and (found := _read(reader, offset, end - size_bytes)) is not None:
            chunk, offset = found
            if chunk is not None and chunk.start == begun_at:
                chunk = None
            if row and (chunk is None or chunk.end - row[0].start > MAX_RANGE_BYTES):
                yield row
                row = []
            row += [chunk] if chunk else []
    finally:
        reader.close()
    if row:
        yield row


def _read(reader: ChunkReader, offset: int, start: int) -> tuple[Chunk | None, int] | None:
    """Return the chunk at an offset and where it ends; no chunk for one before a start."""
    if offset < start and (head := reader.head_at(offset)) is not None:
        return None, offset + head.total_bytes
    found = reader.read(offset)
    if found is None:
        return None
    return (found if isinstance(found, Chunk) else None), found.end


def _range(feed: Feed, chunks: list[Chunk]) -> SkippedRange:
    kept: list[Event] = []
    for chunk in chunks:
        place = ChunkInFlight(feed, chunk.start, chunk.end, chunk.head.number, chunk.head.events)
        kept += control_events(feed, chunk, place)
    records = RecordPacker(Headers({})).pack(kept)
    return range_of(chunks, _CONTEXT, records, len(kept))
