"""Backlogs that the version before left in spools: moved once, at start, to a log of their bus.

    <place>/<bus>/spool/<number>/    segments of `buses.files.log`, `lock`
        cursor.json                  from which byte on a segment holds events that were not settled
        shelf/                       more segments: of destinations in trouble, older than the rest

A segment is removed once everything in it is flushed to disk in the new log. A crash before that
repeats some events and loses none: the next start continues the same log.
"""

import hashlib
import os
import shutil
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import zstandard

from tardis_machine.bronze.series import Origin
from tardis_machine.buses.files.log import (
    BLOCK_HEADER,
    LOCK_FILE,
    RECORD_HEADER,
    VERSION,
    LogError,
    Segment,
    payloads_of,
    segments,
)
from tardis_machine.sinks.delivery.context import StreamContext, pack_context
from tardis_machine.sinks.storage.chunks import Flags
from tardis_machine.sinks.storage.directory import (
    LOCK,
    FileLock,
    LogDirectory,
    LogReader,
    create_log,
    find_logs,
)
from tardis_machine.sinks.storage.positions import PositionFile
from tardis_machine.sinks.storage.quarantine import set_aside
from tardis_machine.sinks.storage.reader import BadBytes
from tardis_machine.sinks.storage.writer import ChunkWriter
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

SPOOL, SHELF, CURSOR = "spool", "shelf", "cursor.json"
INSTANCE = "spools of the version before"
"""Stands as the writer of the logs that take them."""
CHUNK_EVENTS = 1000


class OldSpool(NamedTuple):
    """A directory in which a process of the version before kept events of one bus."""

    bus: str
    directory: Path

    @property
    def size_bytes(self) -> int:
        """Return the size of its segments."""
        found = [*segments(self.directory / SHELF), *segments(self.directory)]
        return sum(segment.path.stat().st_size for segment in found)


class Portion(NamedTuple):
    """Packed records for one chunk."""

    records: bytes
    events: int


def find_old_spools(places: Iterable[Path]) -> Iterator[OldSpool]:
    """Yield the spools that are not empty, each bus in the order in which they are sent."""
    for place in places:
        numbered = (path for path in place.glob(f"*/{SPOOL}/*") if path.name.isdigit())
        for path in sorted(numbered, key=lambda path: (path.parent, int(path.name))):
            if segments(path) or segments(path / SHELF):
                yield OldSpool(path.parent.parent.name, path)


def move_old_spools(
    places: Iterable[Path], root: Path, readers: Iterable[LogReader], producer_id: str
) -> None:
    """Move the spools of the buses that are on into logs; name those of other buses.

    Args:
        places: where the version before kept them.
        root: where logs are.
        readers: the buses that are on.
        producer_id: who takes the events over.
    """
    found = list(find_old_spools(places))
    known = {reader.bus for reader in readers}
    for reader in readers:
        if ours := [spool.directory for spool in found if spool.bus == reader.bus]:
            _move_all(ours, root, reader, producer_id)
    for spool in found:
        if spool.bus not in known:
            log.warning(
                "spool of the version before left alone: its bus is off",
                bus=spool.bus,
                directory=str(spool.directory),
            )


def _move_all(directories: Sequence[Path], root: Path, reader: LogReader, producer_id: str) -> None:
    for directory in directories:
        try:
            _move_one(directory, root, reader, producer_id)
        except BlockingIOError:
            log.warning("spool left alone: its process runs", directory=str(directory))
        except OSError as error:
            # What was not removed is moved at the next start.
            log.error(
                "spool of the version before could not be moved",
                directory=str(directory),
                error=error.strerror,
            )
            return


def _move_one(directory: Path, root: Path, reader: LogReader, producer_id: str) -> None:
    lock = FileLock(directory / LOCK_FILE)
    try:
        with closing(_Taker(root, reader, producer_id)) as taker:
            events = taker.take(directory)
        shutil.rmtree(directory)
        with suppress(OSError):
            directory.parent.rmdir()
            directory.parent.parent.rmdir()
    finally:
        lock.release()
    log.info("moved an old spool to the log", directory=str(directory), events=events)


class _Taker:
    """The log that takes the spools of one bus."""

    def __init__(self, root: Path, reader: LogReader, producer_id: str) -> None:
        self._root = root
        directory, self._lock = _open_log(root, reader, producer_id)
        self._now_us = 0
        self._written = PositionFile(directory.written_path, is_writable=True)
        self._writer = ChunkWriter(directory.path, lambda: self._now_us, written=self._written)
        context = StreamContext(
            stream=SPOOL, producer_id=producer_id, origin=Origin.REPLAY, meta={}
        )
        self._context = pack_context(context)

    def take(self, directory: Path) -> int:
        """Move the segments of a spool and return how many events they held."""
        starts = _read_cursor(directory)
        events = sum(self._take_segment(each, 0) for each in segments(directory / SHELF))
        for segment in segments(directory):
            events += self._take_segment(segment, starts.get(segment.number, 0))
        return events

    def close(self) -> None:
        """Let the publisher read the log."""
        try:
            self._writer.close()
        finally:
            self._written.close()
            self._lock.release()

    def _take_segment(self, segment: Segment, start: int) -> int:
        # The events are as old as the segment, not as the move.
        self._now_us = segment.path.stat().st_mtime_ns // 1000
        before = self._writer.events
        for found in read_segment(segment.path, start):
            if isinstance(found, BadBytes):
                set_aside(self._root, _quarantine_name(segment.path), found)
                continue
            for portion in found:
                self._writer.append(self._context, portion.records, portion.events, Flags.RECORDS)
        self._writer.sync()
        segment.path.unlink()
        return self._writer.events - before


def read_segment(path: Path, start: int) -> Iterator[list[Portion] | BadBytes]:
    """Yield the records of a segment from a byte on, block by block, past what is unreadable."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while start < size:
            reason = "it was not written to its end"
            try:
                for _, end, payload in payloads_of(file, start):
                    yield list(_portions(payload))
                    start = end
                bad_end = size
            except (LogError, zstandard.ZstdError, struct.error) as error:
                reason = str(error)
                bad_end = _block_end(file, start, size)
            if start < bad_end:
                file.seek(start)
                yield BadBytes(start, bad_end, file.read(bad_end - start), reason)
            start = bad_end


def _block_end(file: BinaryIO, start: int, size: int) -> int:
    """Return where an unreadable block ends, if it says so plausibly; else the end of the file."""
    file.seek(start)
    version, _, length, _ = BLOCK_HEADER.unpack(file.read(BLOCK_HEADER.size))
    end = start + BLOCK_HEADER.size + length
    return end if version == VERSION and end <= size else size


def _portions(payload: bytes) -> Iterator[Portion]:
    start = end = events = 0
    while end < len(payload):
        end += RECORD_HEADER.size + sum(RECORD_HEADER.unpack_from(payload, end))
        if end > len(payload):
            raise LogError("a record is longer than its block.")
        events += 1
        if events == CHUNK_EVENTS or end == len(payload):
            yield Portion(payload[start:end], events)
            start, events = end, 0


def _open_log(root: Path, reader: LogReader, producer_id: str) -> tuple[LogDirectory, FileLock]:
    """Continue the log that took spools before; make one when there is none."""
    for found in find_logs(root):
        owner = found.owner
        if (owner.instance, owner.producer_id, owner.readers) == (INSTANCE, producer_id, (reader,)):
            with suppress(BlockingIOError, FileNotFoundError):
                return found, FileLock(found.path / LOCK)
    return create_log(root, producer_id, INSTANCE, system_clock(), [reader])


def _read_cursor(directory: Path) -> dict[int, int]:
    try:
        return msgspec.json.decode((directory / CURSOR).read_bytes(), type=dict[int, int])
    except (FileNotFoundError, msgspec.DecodeError):
        # Without it some events are delivered twice, which their ids show.
        return {}


def _quarantine_name(path: Path) -> str:
    place = hashlib.sha256(str(path.parent).encode()).hexdigest()[:8]
    return f"{SPOOL}-{place}-{path.stem}"
