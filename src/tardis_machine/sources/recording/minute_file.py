"""The minute of one exchange that is being recorded."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import zstandard

LEVEL = 3


class MinuteFile:
    """A slice that gets its name when it is complete; one that was there before is continued.

    Args:
        path: where it is written.
        final: its name in the cache layout.
    """

    def __init__(self, path: Path, final: Path) -> None:
        self._path = path
        self._final = final
        final.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            shutil.copyfile(final, path)
        self._file = path.open("ab")
        # Frames follow each other, so that what was recorded before needs no second compression.
        self._frame = zstandard.ZstdCompressor(level=LEVEL).compressobj()

    def write(self, data: bytes) -> None:
        """Append lines."""
        self._file.write(self._frame.compress(data))

    def confirm(self) -> None:
        """Give the slice its name, safe on disk."""
        with self._file:
            self._file.write(self._frame.flush())
            self._file.flush()
            os.fsync(self._file.fileno())
        self._path.replace(self._final)

    def discard(self) -> None:
        """Leave nothing."""
        with suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)
