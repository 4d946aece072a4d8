"""Bytes of a log that cannot be read: set aside with their place and the reason, never deleted."""

from pathlib import Path

import msgspec

from tardis_machine.sinks.storage.reader import BadBytes
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

QUARANTINE = "quarantine"
DATA_SUFFIX, NOTE_SUFFIX = ".bytes", ".json"


class QuarantineNote(msgspec.Struct, frozen=True, kw_only=True):
    """Where some bytes were, and why they are here."""

    log_id: str
    offset: int
    size: int
    reason: str


def set_aside(root: Path, log_id: str, bad: BadBytes) -> None:
    """Write bad bytes to the quarantine, unless another bus did so before; OSError if it fails."""
    folder = root / QUARANTINE
    name = f"{log_id}-{bad.start:020d}"
    if (folder / f"{name}{NOTE_SUFFIX}").exists():
        return
    log.error(
        "part of the log set aside: it cannot be read",
        log=log_id,
        offset=bad.start,
        bytes=len(bad.data),
        reason=bad.reason,
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / f"{name}{DATA_SUFFIX}").write_bytes(bad.data)
    note = QuarantineNote(log_id=log_id, offset=bad.start, size=len(bad.data), reason=bad.reason)
    draft = folder / f"{name}.draft"
    draft.write_bytes(msgspec.json.encode(note))
    draft.replace(folder / f"{name}{NOTE_SUFFIX}")


def list_quarantine(root: Path) -> list[QuarantineNote]:
    """Return what was set aside, the oldest first."""
    paths = sorted((root / QUARANTINE).glob(f"*{NOTE_SUFFIX}"))
    return [msgspec.json.decode(path.read_bytes(), type=QuarantineNote) for path in paths]
