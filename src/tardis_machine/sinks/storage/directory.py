"""Where logs are: a directory for each writer, and who may write and read in it.

    <root>/logs/<log id>/
        owner                     who writes: `LogOwner`, as JSON
        lock                      held (flock) while the writer lives
        00000000000000000000.chunks   segments, named after the bytes of the log before them
        writer.position           how far it is written, and what could not be
        <reader>.position         how far a bus is: `storage.positions`
        <reader>.lock             held while somebody reads for that bus
        <reader>.parked/          events of that bus whose destinations are in trouble
        <reader>.skipped/         what that bus gave up behind its position: `storage.skipped`

A reader is a bus at one endpoint: its name and a hash of the endpoint.

Locks are flock: the system releases them when a process ends, however it ends.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec

from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

LOGS, OWNER, LOCK, WRITER = "logs", "owner", "lock", "writer"
SEGMENT_SUFFIX, LOCK_SUFFIX, POSITION_SUFFIX, PARKED_SUFFIX, SKIPPED_SUFFIX = (
    ".chunks",
    ".lock",
    ".position",
    ".parked",
    ".skipped",
)
REMOVED = "removed"
PRIVATE = 0o700

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class LogReader(msgspec.Struct, frozen=True):
    """A bus at one endpoint: its events go nowhere else."""

    bus: str
    endpoint: str
    """Brokers, namespace, host or directory; no secrets."""

    @property
    def name(self) -> str:
        """Return the name of its files."""
        return f"{self.bus}-{hashlib.sha256(self.endpoint.encode()).hexdigest()[:12]}"


class LogOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes a log, and who is to read it."""

    log_id: str
    producer_id: str
    """Without the number of a worker: whoever has the same may take the log over."""
    instance: str
    """The server or job that writes it; its publisher reads the log while the writer lives."""
    readers: tuple[LogReader, ...] = ()
    """All events of the log are for these, also for one that never came to read."""


class FileLock:
    """A lock that one process at a time can have."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            BlockingIOError: another process has it.
            FileNotFoundError: the directory is gone.
        """
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Let another process have it."""
        os.close(self._descriptor)


def is_held(path: Path) -> bool:
    """Say whether a process has a lock; not, where there is none any more."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared: whoever else asks at the same time does not have it.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


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
        return is_held(self.path / LOCK)

    def lock_reader(self, reader: LogReader) -> FileLock | None:
        """Read it for a bus; None when another process does."""
        with suppress(BlockingIOError):
            return FileLock(self.path / f"{reader.name}{LOCK_SUFFIX}")
        return None

    def is_read(self, reader: LogReader) -> bool:
        """Say whether somebody reads it for a bus now."""
        return is_held(self.path / f"{reader.name}{LOCK_SUFFIX}")

    def position_path(self, reader: LogReader) -> Path:
        """Return where the position of a reader is kept."""
        return self.path / f"{reader.name}{POSITION_SUFFIX}"

    def parked_path(self, reader: LogReader) -> Path:
        """Return where the parked events of a reader are."""
        return self.path / f"{reader.name}{PARKED_SUFFIX}"

    def skipped_path(self, reader: LogReader) -> Path:
        """Return where it stands what a reader is not to read."""
        return self.path / f"{reader.name}{SKIPPED_SUFFIX}"

    @property
    def written_path(self) -> Path:
        """Return where its writer says how far it is."""
        return self.path / f"{WRITER}{POSITION_SUFFIX}"

    def remove(self) -> None:
        """Delete the log, and what is left of others whose deletion was interrupted."""
        removed = self.path.parent.with_name(REMOVED)
        removed.mkdir(mode=PRIVATE, exist_ok=True)
        with suppress(FileNotFoundError):
            # At once: half a log could be taken for one that nobody has read.
            self.path.rename(removed / self.path.name)
        shutil.rmtree(removed, ignore_errors=True)


def create_log(
    root: Path, producer_id: str, instance: str, now_us: int, readers: Iterable[LogReader] = ()
) -> tuple[LogDirectory, FileLock]:
    """Make the directory of a new log, and become its writer before others see it."""
    log_id = f"{base36(now_us)}{secrets.token_hex(2)}"
    owner = LogOwner(
        log_id=log_id, producer_id=producer_id, instance=instance, readers=tuple(readers)
    )
    root.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    path = root / LOGS / log_id
    path.mkdir(mode=PRIVATE, parents=True)
    try:
        lock = FileLock(path / LOCK)
        write_owner(path, owner)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return LogDirectory(path, owner), lock


def write_owner(path: Path, owner: LogOwner) -> None:
    """Say whose log is in a directory; whoever may do so has the lock of its writer."""
    draft = path / f"{OWNER}.draft"
    draft.write_bytes(msgspec.json.encode(owner))
    draft.replace(path / OWNER)


def find_logs(root: Path) -> Iterator[LogDirectory]:
    """Yield the logs below a root, the oldest first."""
    for path in sorted((root / LOGS).glob("*")):
        # One that has no owner yet is being made, and one that lost it is being removed.
        with suppress(FileNotFoundError, NotADirectoryError):
            owner = _parse_owner(path, (path / OWNER).read_bytes())
            if owner is not None:
                yield LogDirectory(path, owner)


@lru_cache(maxsize=1024)
def _parse_owner(path: Path, owner: bytes) -> LogOwner | None:
    """Return whose log it is; one that does not say is left alone, with one line in the log."""
    try:
        return msgspec.json.decode(owner, type=LogOwner)
    except msgspec.DecodeError as error:
        log.error("log ignored: its owner cannot be read", path=str(path), error=str(error))
        return None


def base36(number: int) -> str:
    """Write a number with digits and letters."""
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"
