"""The death of a process between two system calls, without a process.

Whatever dies leaves its files as they are at that moment; the system closes its descriptors and
with them releases its locks.
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from tardis_machine.sinks.storage.directory import LOCK, LOCK_SUFFIX, PARKED_SUFFIX, SEGMENT_SUFFIX
from tardis_machine.sinks.storage.positions import PositionFile

CHANGING = {
    *(os.open, os.writev, os.write, os.ftruncate, os.posix_fallocate, os.fdatasync, os.fsync),
    *(os.unlink, os.remove, os.rename, os.replace, os.mkdir, os.rmdir, fcntl.flock),
}
"""System calls that leave something behind."""

DESCRIPTORS = "/proc/self/fd"


class Crash(BaseException):
    """The process is dead."""


class crashing:  # noqa: N801 - reads as what happens in its block
    """End the block at one of its system calls, at the latest at its end.

    Args:
        after: how many moments are survived: before and after each system call that changes a
            file, and after each position that is saved.
        share: how much of the data of a last write is left.
    """

    def __init__(self, after: int, share: float) -> None:
        self._left = after
        self._share = share

    def __enter__(self) -> Self:
        sys.setprofile(self._look)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        sys.setprofile(None)
        return kind is Crash

    def _look(self, frame: FrameType, event: str, arg: Any) -> None:
        is_call = event in ("c_call", "c_return") and arg in CHANGING
        if not is_call and (event != "return" or frame.f_code is not PositionFile.save.__code__):
            return
        if self._left > 0:
            self._left -= 1
            return
        if event == "c_return" and arg is os.writev:
            self._tear(frame.f_locals["self"], frame.f_locals["parts"])
        raise Crash

    def _tear(self, segment: Any, parts: list[bytes]) -> None:
        """Leave a part of what was written."""
        written = sum(map(len, parts))
        os.ftruncate(segment.descriptor, segment.size + int(written * self._share))


def writer_locks(root: Path) -> set[int]:
    """Return the descriptors of the locks of writers."""
    return {descriptor for descriptor, path in _open_files(root) if path.name == LOCK}


def close_publisher(root: Path, others: set[int]) -> None:
    """Close what a dead publisher had open, as the system does; not the locks of the writers."""
    for descriptor, path in _open_files(root):
        is_reader = path.suffix == SEGMENT_SUFFIX and not _is_writable(descriptor)
        is_parked = path.suffix == SEGMENT_SUFFIX and PARKED_SUFFIX in str(path)
        is_probe = path.name == LOCK and descriptor not in others
        if is_reader or is_parked or is_probe or path.suffix == LOCK_SUFFIX:
            os.close(descriptor)


def close_writer(directory: Path) -> None:
    """Close what a dead writer had open, as the system does."""
    for descriptor, path in _open_files(directory):
        is_segment = path.suffix == SEGMENT_SUFFIX and _is_writable(descriptor)
        if path.parent == directory and (is_segment or path.name == LOCK):
            os.close(descriptor)


def _open_files(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield descriptors of files below a folder; those of maps close themselves."""
    for name in os.listdir(DESCRIPTORS):  # noqa: PTH208 - see below
        with suppress(FileNotFoundError):
            link = os.readlink(f"{DESCRIPTORS}/{name}")  # noqa: PTH115
            target = link.removesuffix(" (deleted)")
            # Text first: a path of each is a third of the time of the whole model.
            if target.startswith(f"{folder}/"):
                yield int(name), Path(target)


def _is_writable(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
