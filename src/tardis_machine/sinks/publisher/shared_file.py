"""A few bytes that one process replaces and others read, on a full disk too.

They are written over in place, because a new file would need room on the disk:

    u32 size | u32 crc32 | bytes
"""

import os
import struct
from pathlib import Path

from isal.isal_zlib import crc32

_HEAD = struct.Struct("<II")
READ_ATTEMPTS = 5
"""What is replaced while it is read is read again."""


class SharedFile:
    """A small file that its one writer keeps up to date."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self, max_bytes: int) -> None:
        """Make the file, with room for so many bytes; OSError when the disk has none."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _HEAD.size + max_bytes)
        finally:
            os.close(descriptor)

    def write(self, data: bytes) -> None:
        """Replace what is in the file.

        Raises:
            OSError: the file is gone, or has to grow on a full disk.
        """
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, _HEAD.pack(len(data), crc32(data)) + data, 0)
        finally:
            os.close(descriptor)

    def read(self) -> bytes | None:
        """Return what was written last; None when there is nothing, or nothing whole."""
        for _ in range(READ_ATTEMPTS):
            try:
                with self._path.open("rb") as file:
                    size, checksum = _HEAD.unpack(file.read(_HEAD.size))
                    data = file.read(size)
            except (OSError, struct.error):
                return None
            if size and crc32(data) == checksum:
                return data
        return None
