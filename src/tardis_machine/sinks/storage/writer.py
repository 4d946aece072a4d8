"""The writing side of a chunk log: one writer, one open segment, chunks appended whole."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from tardis_machine.model.time import Clock
from tardis_machine.sinks.storage.chunks import Flags, pack_chunk
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.positions import BEGINNING, COUNTS, Position, PositionFile
from tardis_machine.sinks.storage.reader import last_chunk
from tardis_machine.sinks.storage.segments import end_of, segment_path
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

SEGMENT_BYTES = 16 * 1_048_576
MAX_UNSYNCED_BYTES = 32 * 1_048_576
"""An append waits for the disk when more than this is not flushed yet."""

Fsync: TypeAlias = Literal["off", "interval", "each"]
Parts: TypeAlias = list[bytes]


class _OpenSegment:
    """A segment with what was written to it since it was flushed."""

    def __init__(self, directory: Path, base: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.descriptor = os.open(segment_path(directory, base), flags, 0o600)
        self.base = base
        self.size = 0
        self.unsynced: list[Parts] = []

    @property
    def end(self) -> int:
        """Return the offset behind the segment."""
        return self.base + self.size

    def write(self, parts: Parts) -> None:
        """Append the parts of a chunk; a failure leaves no part of them, if that can be had."""
        total = sum(map(len, parts))
        try:
            written = os.writev(self.descriptor, parts)
            if written < total:
                rest = memoryview(b"".join(parts))[written:]
                while rest:
                    rest = rest[os.write(self.descriptor, rest) :]
        except OSError:
            self._cut_back()
            raise
        self.size += total

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self.descriptor, self.size)
        except OSError:
            # Readers skip it: the next segment says that it was not written to its end.
            self.size = os.fstat(self.descriptor).st_size
            raise


class ChunkWriter:
    """Appends chunks to the log in a directory; whoever makes one holds the writer's lock.

    A failed append leaves nothing that a reader takes for a chunk. A log that another process
    wrote before is continued in a new segment, behind its last sound chunk.

    Args:
        directory: of the log.
        clock: what time it is.
        fsync: when chunks are flushed to disk: never, by `sync`, or each one.
        segment_bytes: a segment that has this size is closed.
        written: where to say how far the log is written; None: nowhere.
        after: where a log goes on whose segments are all deleted.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        fsync: Fsync = "interval",
        segment_bytes: int = SEGMENT_BYTES,
        written: PositionFile | None = None,
        after: Position = BEGINNING,
    ) -> None:
        self._directory = directory
        self._written = written
        self._not_written = 0
        self._clock = clock
        self._fsync = fsync
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._segment: _OpenSegment | None = None
        self._full: list[_OpenSegment] = []
        """Segments that are not written to any more, but not flushed either."""
        self._uncertain: list[Parts] = []
        """Chunks of segments that could not be flushed, until they are written again."""
        self._syncing = threading.Lock()
        self._unsynced_bytes = 0
        self._end = max(end_of(directory), after.offset)
        last = last_chunk(directory)
        self._next_number = (last.number if last else after.number) + 1
        self._next_event = last.first_event + last.events if last else after.events

    @property
    def end(self) -> int:
        """Return the offset behind the last chunk."""
        return self._end

    @property
    def events(self) -> int:
        """Return how many events were appended."""
        return self._next_event

    def append(self, context: bytes, body: bytes, events: int, flags: Flags = Flags.NONE) -> int:
        """Write one chunk and return the offset behind it; OSError when it cannot be written.

        One that is written and cannot be flushed is in the log all the same: `sync` says so.
        """
        with self._lock:
            parts = pack_chunk(
                context,
                body,
                events=events,
                number=self._next_number,
                first_event=self._next_event,
                appended_us=self._clock(),
                flags=flags,
            )
            self._write(parts)
            self._next_number += 1
            self._next_event += events
            end = self._end
            self._tell()
        if self._fsync == "each" or self._unsynced_bytes > MAX_UNSYNCED_BYTES:
            try:
                self.sync()
            except OSError as error:
                log.error("log of published records cannot be flushed", error=error.strerror)
        return end

    def give_up(self, events: int) -> None:
        """Count events that could not be written."""
        with self._lock:
            self._not_written += events
            self._tell()

    def sync(self) -> None:
        """Flush what was appended to disk; appends go on meanwhile.

        When that fails, nobody knows what of it is on disk: it is written once more, to another
        segment. Readers skip chunks whose number they have seen. OSError when that fails too; then
        the next call begins with it.
        """
        # One at a time: another would take chunks for flushed that came after its own flush.
        with self._syncing:
            with self._lock:
                self._write_uncertain()
                open_segments = self._open_segments()
                due = [(each, len(each.unsynced)) for each in open_segments if each.unsynced]
            for segment, count in due:
                self._sync(segment, count)

    def _sync(self, segment: _OpenSegment, count: int) -> None:
        try:
            os.fdatasync(segment.descriptor)
        except OSError as error:
            log.error("log segment closed: it cannot be flushed", error=error.strerror)
            with self._lock:
                self._give_up_segment(segment)
                self._write_uncertain()
        else:
            with self._lock:
                self._forget(segment, count)

    def close(self) -> None:
        """Flush what was appended, and close the files."""
        try:
            self.sync()
        finally:
            for segment in self._open_segments():
                segment.close()
            self._segment, self._full = None, []

    def _tell(self) -> None:
        """Say how far the log is written, to whoever reads it."""
        if self._written is not None:
            counts = [0] * COUNTS
            counts[Settled.WAITING] = self._next_event
            counts[Settled.NOT_WRITTEN] = self._not_written
            self._written.save(
                Position(offset=self._end, number=self._next_number - 1, counts=tuple(counts))
            )

    def _open_segments(self) -> list[_OpenSegment]:
        return [*self._full, *([self._segment] if self._segment else [])]

    def _write(self, parts: Parts) -> None:
        segment = self._segment
        if segment is None or segment.size >= self._segment_bytes:
            segment = self._roll()
        try:
            segment.write(parts)
        except OSError:
            if segment.end != self._end:
                self._end = segment.end
                self._retire()
            raise
        self._end = segment.end
        if self._fsync != "off":
            segment.unsynced.append(parts)
            self._unsynced_bytes += sum(map(len, parts))

    def _roll(self) -> _OpenSegment:
        """Begin a segment; the one before it stays in use until that succeeded."""
        segment = _OpenSegment(self._directory, self._end)
        if self._fsync != "off":
            self._sync_directory()
        self._retire()
        self._segment = segment
        return segment

    def _retire(self) -> None:
        """Write no more to the segment; it is closed once it is flushed."""
        segment, self._segment = self._segment, None
        if segment is None:
            return
        if segment.unsynced:
            self._full.append(segment)
        else:
            segment.close()

    def _forget(self, segment: _OpenSegment, count: int) -> None:
        """Note that the first chunks that were written to a segment are on disk."""
        synced = segment.unsynced[:count]
        self._unsynced_bytes -= sum(len(part) for parts in synced for part in parts)
        del segment.unsynced[:count]
        if segment in self._full and not segment.unsynced:
            self._full.remove(segment)
            segment.close()

    def _give_up_segment(self, segment: _OpenSegment) -> None:
        """Write no more to a segment that cannot be flushed; what it may have lost is kept."""
        self._uncertain += segment.unsynced
        if segment is self._segment:
            self._retire()
        self._forget(segment, len(segment.unsynced))

    def _write_uncertain(self) -> None:
        """Write what segments may have lost to a new one, and flush that."""
        if not self._uncertain:
            return
        segment = self._roll()
        for parts in self._uncertain:
            segment.write(parts)
            self._end = segment.end
        os.fdatasync(segment.descriptor)
        self._uncertain = []

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Syncer(threading.Thread):
    """Flushes logs to disk at intervals.

    Args:
        sync: flushes them.
        interval_seconds: between two flushes.
        on_failure: called with the error of one that failed.
    """

    def __init__(
        self,
        sync: Callable[[], None],
        interval_seconds: float,
        on_failure: Callable[[OSError], None],
    ) -> None:
        super().__init__(name="log-sync", daemon=True)
        self._sync = sync
        self._interval = interval_seconds
        self._on_failure = on_failure
        self._ended = threading.Event()

    def run(self) -> None:
        """Flush until stopped."""
        while not self._ended.wait(self._interval):
            try:
                self._sync()
            except OSError as error:
                self._on_failure(error)

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        if self.ident is not None:
            self.join()
