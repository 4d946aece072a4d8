"""The writing side of a log: one process, one open segment, blocks flushed in groups."""

import os
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from isal.isal_zlib import crc32

from tardis_machine.buses.files.log import (
    CODEC_NONE,
    CODEC_ZSTD,
    DURABLE,
    DURABLE_FILE,
    LOCK_FILE,
    Position,
    Segment,
    durable_end,
    pack_block,
    segment_path,
    segments,
    whole_end,
)
from tardis_machine.model.errors import SinkUnavailableError
from tardis_machine.sinks.storage.directory import FileLock

CODECS = {"none": CODEC_NONE, "zstd": CODEC_ZSTD}


class DirectoryLock:
    """Says that one process owns a directory; the system releases it when the process ends."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = FileLock(directory / LOCK_FILE)
        except BlockingIOError as error:
            raise SinkUnavailableError(f"{directory} is in use by another process.") from error

    def release(self) -> None:
        """Let another process have the directory."""
        self._lock.release()


class LogWriter:
    """Appends blocks to a log. Not for several threads at once.

    Opening recovers what a crash left: a torn tail is cut and the segment closed.

    Args:
        directory: made when it does not exist.
        segment_bytes: a segment is closed when it has this size.
        segment_age_seconds: or when it is this old; None for no limit.
        codec: compression of blocks.
    """

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int,
        segment_age_seconds: float | None = None,
        codec: str = "none",
    ) -> None:
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._segment_age_seconds = segment_age_seconds
        self._codec = CODECS[codec]
        self._lock = DirectoryLock(directory)
        self._descriptor: int | None = None
        self._number = 0
        self._size = 0
        self._durable_size = 0
        self._opened_at = 0.0
        try:
            self._number = self._recover()
        except BaseException:
            self._lock.release()
            raise

    @property
    def end(self) -> Position:
        """Return where the next block will stand, or the end of the last segment."""
        return Position(self._number, self._size)

    @property
    def next_byte(self) -> int:
        """Return at which byte of its segment the next block will start."""
        return 0 if self._descriptor is None else self._size

    @property
    def is_whole(self) -> bool:
        """Say whether the open segment ends with a whole block, so that one more can follow."""
        return self._descriptor is not None

    @property
    def durable_end(self) -> Position:
        """Return how far the log is flushed to disk."""
        return Position(self._number, self._durable_size)

    def number_after(self, number: int) -> None:
        """Give the next segment a higher number than this."""
        self.roll()
        if number > self._number:
            self._number = number
            self._size = self._durable_size = 0

    def append(self, payload: bytes) -> Position:
        """Write one block and return its end; a failed write leaves no trace."""
        if self._descriptor is None:
            self._open_next()
        assert self._descriptor is not None
        block = memoryview(pack_block(payload, self._codec))
        written = 0
        try:
            while written < len(block):
                written += os.write(self._descriptor, block[written:])
        except OSError:
            self._cut_back(self._descriptor)
            raise
        self._size += len(block)
        return self.end

    def sync(self) -> None:
        """Flush appended blocks to disk, and publish the durable end to readers."""
        flush(self, nullcontext())

    def begin_sync(self) -> tuple[int, Position] | None:
        """Return a descriptor to flush and close, and how far that will make the log durable."""
        if self._descriptor is None or self._durable_size >= self._size:
            return None
        return os.dup(self._descriptor), self.end

    def end_sync(self, position: Position) -> None:
        """Note what was flushed, and close the segment when it is large enough."""
        if self._descriptor is None or position.segment != self._number:
            return
        self._durable_size = position.byte
        self._note_durable_end()
        if self._size >= self._segment_bytes:
            self.roll()

    def roll_if_old(self) -> None:
        """Close the segment when it has reached its age."""
        limit = self._segment_age_seconds
        if self._descriptor is None or limit is None:
            return
        if time.monotonic() - self._opened_at >= limit:
            self.roll()

    def roll(self) -> None:
        """Close the segment: flush it, and give it its final name; an empty one is removed."""
        if self._descriptor is None:
            return
        if self._size == 0:
            self._remove_empty(self._descriptor)
            return
        os.fsync(self._descriptor)
        self._durable_size = self._size
        self._note_durable_end()
        os.close(self._descriptor)
        self._descriptor = None
        path = segment_path(self.directory, self._number, is_closed=False)
        path.rename(segment_path(self.directory, self._number, is_closed=True))
        sync_directory(self.directory)

    def close(self) -> None:
        """Close the segment and let another process write."""
        try:
            self.roll()
        finally:
            self._lock.release()

    def _remove_empty(self, descriptor: int) -> None:
        """Leave no file without a block; its number is used again, for nobody has read anything."""
        os.close(descriptor)
        self._descriptor = None
        segment_path(self.directory, self._number, is_closed=False).unlink()
        self._number -= 1

    def _cut_back(self, descriptor: int) -> None:
        """Remove what a failed write left; when that fails too, leave the segment to recovery."""
        try:
            os.ftruncate(descriptor, self._size)
            os.lseek(descriptor, self._size, os.SEEK_SET)
        except OSError:
            os.close(descriptor)
            self._descriptor = None

    def _open_next(self) -> None:
        path = segment_path(self.directory, self._number + 1, is_closed=False)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        sync_directory(self.directory)
        self._number += 1
        self._size = self._durable_size = 0
        self._opened_at = time.monotonic()

    def _note_durable_end(self) -> None:
        place = DURABLE.pack(self._number, self._durable_size, 0)[:-4]
        note = place + crc32(place).to_bytes(4, "little")
        descriptor = os.open(self.directory / DURABLE_FILE, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, note, 0)
        finally:
            os.close(descriptor)

    def _recover(self) -> int:
        found = segments(self.directory)
        for segment in found:
            if not segment.is_closed:
                close_left_segment(segment)
        # Also after retention removed every segment: numbers are never used again.
        return max(found[-1].number if found else 0, durable_end(self.directory).segment)


def flush(writer: LogWriter, lock: AbstractContextManager[object]) -> None:
    """Flush what was appended; the lock of the writer is not held while the disk works."""
    with lock:
        pending = writer.begin_sync()
    if pending is None:
        return
    descriptor, position = pending
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    with lock:
        writer.end_sync(position)


def close_left_segment(segment: Segment) -> None:
    """Cut the torn tail of a segment that a crash left open, and close it."""
    end = whole_end(segment.path)
    with segment.path.open("r+b") as file:
        file.truncate(end)
        os.fsync(file.fileno())
    segment.path.rename(segment_path(segment.path.parent, segment.number, is_closed=True))
    sync_directory(segment.path.parent)


def remove_old_segments(
    directory: Path, *, keep_bytes: int = 0, keep_seconds: float = 0
) -> list[Segment]:
    """Remove the oldest closed segments beyond a total size or an age; 0 means no limit."""
    closed = [segment for segment in segments(directory) if segment.is_closed]
    sizes = [segment.path.stat() for segment in closed]
    total = sum(info.st_size for info in sizes)
    removed = []
    for segment, info in zip(closed, sizes, strict=True):
        is_beyond = 0 < keep_bytes < total
        is_old = keep_seconds > 0 and time.time() - info.st_mtime > keep_seconds
        if not (is_beyond or is_old):
            break
        segment.path.unlink()
        total -= info.st_size
        removed.append(segment)
    return removed


def sync_directory(directory: Path) -> None:
    """Make new names in a directory survive a crash."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
