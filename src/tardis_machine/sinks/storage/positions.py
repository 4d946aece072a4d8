"""How far a bus has come in a log, kept in a small mapped file beside it.

A position moves with every settled batch, so it must cost nothing: the file is mapped, and what
was written to it survives the death of the process. It has two slots that are written in turn, each
with a checksum, so that one of them is always whole:

    u64 sequence | u64 offset | u64 line | u64 number | u64 × 32 counts by `Settled` | u32 crc32

Everything before `offset` is settled, and so are the first `line` events of the chunk there.
`number` is that of the last chunk that is wholly settled. The counts are of exactly these events.
"""

import mmap
import os
import struct
from pathlib import Path

from isal.isal_zlib import crc32
from msgspec import Struct

from tardis_machine.sinks.storage.outcomes import DROPPED, Settled

COUNTS = 32
_SLOT = struct.Struct(f"<4Q{COUNTS}Q")
_CHECKSUM = struct.Struct("<I")
SLOT_BYTES = 512
FILE_BYTES = 2 * SLOT_BYTES


class Position(Struct, frozen=True, kw_only=True):
    """A place in a log, and what became of everything before it."""

    offset: int = 0
    line: int = 0
    number: int = 0
    counts: tuple[int, ...] = (0,) * COUNTS

    @property
    def events(self) -> int:
        """Return how many events are settled."""
        return sum(self.counts)

    @property
    def dropped(self) -> int:
        """Return how many of them were lost."""
        return sum(self.counts[reason] for reason in DROPPED)

    def count(self, settled: Settled) -> int:
        """Return how many events were settled in one way."""
        return self.counts[settled]


BEGINNING = Position()


class PositionFile:
    """The position of one bus in one log. One process writes it, any may read it."""

    def __init__(self, path: Path, *, is_writable: bool) -> None:
        """Map the file; FileNotFoundError when it does not exist and is only to be read."""
        self._path = path
        self._is_writable = is_writable
        self._map = self._open()
        self._sequence = max((found[0] for found in self._slots()), default=0)

    def load(self) -> Position | None:
        """Return the position; None when none was saved."""
        slots = self._slots()
        if not slots:
            return None
        _, offset, line, number, *counts = max(slots)
        return Position(offset=offset, line=line, number=number, counts=tuple(counts))

    def save(self, position: Position) -> None:
        """Replace the position."""
        if self._map.closed:
            self._map = self._open()
        self._sequence += 1
        packed = _SLOT.pack(
            self._sequence, position.offset, position.line, position.number, *position.counts
        )
        start = self._sequence % 2 * SLOT_BYTES
        end = start + _SLOT.size + _CHECKSUM.size
        self._map[start:end] = packed + _CHECKSUM.pack(crc32(packed))

    def close(self) -> None:
        """Unmap the file; the next position that is saved maps it again."""
        self._map.close()

    def _open(self) -> mmap.mmap:
        flags = os.O_RDWR | os.O_CREAT if self._is_writable else os.O_RDONLY
        descriptor = os.open(self._path, flags | os.O_CLOEXEC, 0o600)
        try:
            if self._is_writable and os.fstat(descriptor).st_size < FILE_BYTES:
                # Allocated, so that no later write needs room on the disk.
                os.posix_fallocate(descriptor, 0, FILE_BYTES)
            access = mmap.ACCESS_WRITE if self._is_writable else mmap.ACCESS_READ
            return mmap.mmap(descriptor, FILE_BYTES, access=access)
        finally:
            os.close(descriptor)

    def _slots(self) -> list[tuple[int, ...]]:
        found = (self._slot(number * SLOT_BYTES) for number in range(2))
        return [slot for slot in found if slot is not None and slot[0]]

    def _slot(self, start: int) -> tuple[int, ...] | None:
        packed = self._map[start : start + _SLOT.size]
        (checksum,) = _CHECKSUM.unpack_from(self._map, start + _SLOT.size)
        return _SLOT.unpack(packed) if crc32(packed) == checksum else None


def read_position(path: Path) -> Position | None:
    """Return the position in a file; None when there is none."""
    try:
        file = PositionFile(path, is_writable=False)
    except (FileNotFoundError, ValueError):
        return None
    try:
        return file.load()
    finally:
        file.close()
