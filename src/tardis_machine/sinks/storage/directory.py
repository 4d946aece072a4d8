"""Where logs are: a directory for each writer, and who may write and read in it.

    <root>/logs/<log id>/
        owner                     who writes: `LogOwner`, as JSON
        lock                      held (flock) while the writer lives
        00000000000000000000.chunks   segments, named after the bytes of the log before them
        <bus>.position            how far a bus is: `storage.positions`
        <bus>.lock                held while somebody reads for that bus

Locks are flock: the system releases them when a process ends, however it ends.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from tardis_machine.model.errors import SinkError

LOGS, OWNER, LOCK = "logs", "owner", "lock"
SEGMENT_SUFFIX, LOCK_SUFFIX = ".chunks", ".lock"
PRIVATE = 0o700

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class LogOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes a log."""

    log_id: str
    producer_id: str
    """Without the number of a worker: whoever has the same may take the log over."""
    instance: str
    """The server or job that writes it; its publisher reads the log while the writer lives."""


class FileLock:
    """A lock that one process at a time can have."""

    def __init__(self, path: Path) -> None:
        """Take the lock; BlockingIOError when another process has it."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Let another process have it."""
        os.close(self._descriptor)


class LogDirectory:
    """One log as files."""

    def __init__(self, path: Path, owner: LogOwner) -> None:
        self.path = path
        self.owner = owner

    @property
    def log_id(self) -> str:
        """Return the id of the log."""
        return self.owner.log_id

    @property
    def has_writer(self) -> bool:
        """Say whether its writer lives."""
        try:
            FileLock(self.path / LOCK).release()
        except BlockingIOError:
            return True
        return False

    def lock_writer(self) -> FileLock:
        """Become its writer; BlockingIOError when there is one."""
        return FileLock(self.path / LOCK)

    def lock_reader(self, bus: str) -> FileLock | None:
        """Become its reader for a bus; None when there is one."""
        with suppress(BlockingIOError):
            return FileLock(self.path / f"{bus}{LOCK_SUFFIX}")
        return None

    def remove(self) -> None:
        """Delete the log."""
        shutil.rmtree(self.path, ignore_errors=True)


def create_log(root: Path, producer_id: str, instance: str, now_us: int) -> LogDirectory:
    """Make the directory of a new log."""
    log_id = f"{base36(now_us)}{secrets.token_hex(2)}"
    owner = LogOwner(log_id=log_id, producer_id=producer_id, instance=instance)
    path = root / LOGS / log_id
    path.mkdir(mode=PRIVATE, parents=True)
    draft = path / f"{OWNER}.draft"
    draft.write_bytes(msgspec.json.encode(owner))
    draft.replace(path / OWNER)
    return LogDirectory(path, owner)


def find_logs(root: Path) -> Iterator[LogDirectory]:
    """Yield the logs below a root, the oldest first."""
    for path in sorted((root / LOGS).glob("*")):
        # One that has no owner yet is being made, and one that lost it is being removed.
        with suppress(FileNotFoundError, NotADirectoryError):
            yield LogDirectory(path, _read_owner(path / OWNER))


def _read_owner(path: Path) -> LogOwner:
    try:
        return msgspec.json.decode(path.read_bytes(), type=LogOwner)
    except msgspec.DecodeError as error:
        raise SinkError(f"{path} does not say whose log it is: {error}.") from error


def base36(number: int) -> str:
    """Write a number with digits and letters."""
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"
