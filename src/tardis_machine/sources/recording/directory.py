"""The directory of a recorder: one process writes to it, and finds what it left open before."""

import fcntl
import os
from pathlib import Path

from tardis_machine.model.errors import SettingsError

OPEN = "open"
"""Where minutes are while they last; what is left there has no end and is never read."""


class RecordingDirectory:
    """Holds the lock of a directory.

    Raises:
        SettingsError: it cannot be written, or another process records to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            (path / OPEN).mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / "recorder.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        except OSError as error:
            raise SettingsError(f"Cannot record to {path}: {error.strerror}.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise SettingsError(
                f"Cannot record to {path}: another process does. Choose another directory."
            ) from None
        for left in (path / OPEN).iterdir():
            left.unlink()

    def open_path(self, exchange: str, minute_us: int) -> Path:
        """Return where a minute is while it lasts."""
        return self.path / OPEN / f"{exchange}.{minute_us}"

    def close(self) -> None:
        """Let another process record."""
        os.close(self._lock)
