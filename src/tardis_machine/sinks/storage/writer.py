"""The writing side of a chunk log: one writer, one open segment, chunks appended whole."""

import os
import threading
from collections.abc import Callable, Sequence
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
MAX_UNFLUSHED_BYTES = 32 * 1_048_576
"""An append waits for the disk when more than this is not flushed yet."""

FLUSH_BYTES = 4 * 1_048_576
"""So much that is not flushed is flushed at once: chunks are kept until then, and the next ones
need memory that is in no cache of the CPU."""

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC

Fsync: TypeAlias = Literal["off", "interval", "each"]
Parts: TypeAlias = Sequence[bytes | memoryview]


class _Unflushed:
    """Chunks that may not be on disk yet, kept until they are."""

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []
        self.size = 0

    def add(self, parts: Parts) -> None:
        """Keep the parts of a chunk."""
        self.parts += parts
        self.size += sum(map(len, parts))

    def clear(self) -> None:
        """Forget all of it."""
        self.parts.clear()
        self.size = 0


class _OpenSegment:
    """A segment that is written to, or not flushed yet."""

    def __init__(self, directory: Path, base: int) -> None:
        self._path = segment_path(directory, base)
        self._descriptor: int | None = os.open(self._path, _APPEND | os.O_CREAT, 0o600)
        self.base = base
        self.size = 0
        self.flushed_size = 0

    @property
    def descriptor(self) -> int:
        """Return the descriptor of the file, which is opened again where it was closed."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, _APPEND)
        return self._descriptor

    @property
    def end(self) -> int:
        """Return the offset behind the segment."""
        return self.base + self.size

    @property
    def is_flushed(self) -> bool:
        """Say whether all of it is on disk."""
        return self.flushed_size >= self.size

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
        """Close the file; the next write opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

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
        self._syncing = threading.Lock()
        self.flush_due = threading.Event()
        """Set when much was appended since the last flush began; for a `Syncer`."""
        self._unflushed, self._flushing = _Unflushed(), _Unflushed()
        """What came since the last flush began, and before it."""
        self._is_uncertain = False
        """A flush failed, and what it was about was not written again yet."""
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
            if self._fsync != "off":
                self._unflushed.add(parts)
        if self._unflushed.size >= FLUSH_BYTES:
            self.flush_due.set()
        if self._fsync == "each" or self._unflushed.size > MAX_UNFLUSHED_BYTES:
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
        if self._fsync == "off":
            return
        # One at a time: another would take chunks for flushed that came after its own flush.
        with self._syncing:
            with self._lock:
                if self._is_uncertain:
                    self._write_again()
                due = [(each, each.size) for each in self._open_segments() if not each.is_flushed]
                self._unflushed, self._flushing = self._flushing, self._unflushed
            try:
                for segment, _ in due:
                    os.fdatasync(segment.descriptor)
            except OSError as error:
                log.error("log segment closed: it cannot be flushed", error=error.strerror)
                with self._lock:
                    self._give_up_segments()
                    self._write_again()
            else:
                with self._lock:
                    self._note_flushed(due)

    def rest(self) -> None:
        """Flush what was appended, and close the file; the next append opens it again."""
        self.sync()
        if self._segment is not None:
            self._segment.close()

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
            self._end = segment.end
            if segment.size:
                # On a full disk it can be deleted once it is read, which the last one never is.
                self._retire()
            raise
        self._end = segment.end

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
        if segment.is_flushed or self._fsync == "off":
            segment.close()
        else:
            self._full.append(segment)

    def _note_flushed(self, flushed: list[tuple[_OpenSegment, int]]) -> None:
        """Note how far segments are on disk, and forget what they hold."""
        self._flushing.clear()
        for segment, size in flushed:
            segment.flushed_size = size
            if segment in self._full and segment.is_flushed:
                self._full.remove(segment)
                segment.close()

    def _give_up_segments(self) -> None:
        """Write no more to segments that cannot be flushed; what they may have lost is kept."""
        self._flushing.add(self._unflushed.parts)
        self._unflushed.clear()
        for segment in self._open_segments():
            segment.close()
        self._segment, self._full = None, []
        self._is_uncertain = True

    def _write_again(self) -> None:
        """Write what segments may have lost to a new one, and flush that."""
        segment = self._roll()
        try:
            self._write([b"".join(self._flushing.parts)])
            os.fdatasync(segment.descriptor)
        except OSError:
            # A later flush of it may succeed and mean nothing.
            self._segment = None
            segment.close()
            raise
        segment.flushed_size = segment.size
        self._flushing.clear()
        self._is_uncertain = False

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Syncer(threading.Thread):
    """Flushes logs to disk at intervals, and earlier when that is due.

    Args:
        sync: flushes them.
        interval_seconds: longest time between two flushes.
        on_failure: called with the error of one that failed.
        due: set by whoever wants a flush before the interval has passed.
    """

    def __init__(
        self,
        sync: Callable[[], None],
        interval_seconds: float,
        on_failure: Callable[[OSError], None],
        due: threading.Event | None = None,
    ) -> None:
        super().__init__(name="log-sync", daemon=True)
        self._sync = sync
        self._interval = interval_seconds
        self._on_failure = on_failure
        self._due = due or threading.Event()
        self._is_ended = False

    def run(self) -> None:
        """Flush until stopped."""
        while True:
            self._due.wait(self._interval)
            if self._is_ended:
                return
            self._due.clear()
            try:
                self._sync()
            except OSError as error:
                self._on_failure(error)

    def stop(self) -> None:
        """End the thread."""
        self._is_ended = True
        self._due.set()
        if self.ident is not None:
            self.join()
