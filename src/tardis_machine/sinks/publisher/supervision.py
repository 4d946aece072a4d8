"""What the parent of the publisher process notes of its deaths, for every worker to read."""

from contextlib import suppress
from pathlib import Path

import msgspec

UNSTABLE_DEATHS = 3
UNSTABLE_SECONDS = 120.0
"""A publisher that died so often within this time is not stable."""


class Supervision(msgspec.Struct, frozen=True):
    """Whether the publisher runs, and when it died, in seconds since 1970."""

    is_running: bool = True
    deaths: tuple[float, ...] = ()
    """The latest ones, as many as it takes to be unstable."""

    def after_death(self, now: float) -> "Supervision":
        """Return what is noted when it dies."""
        return Supervision(is_running=False, deaths=(*self.deaths, now)[-UNSTABLE_DEATHS:])

    def after_start(self) -> "Supervision":
        """Return what is noted when it runs again."""
        return msgspec.structs.replace(self, is_running=True)

    def problem(self, now: float) -> str | None:
        """Say what is wrong: it is not running, or dies again and again."""
        if not self.is_running:
            return "the publisher process ended unexpectedly and is being restarted"
        recent = [death for death in self.deaths if now - death < UNSTABLE_SECONDS]
        if len(recent) < UNSTABLE_DEATHS:
            return None
        return f"the publisher process died {len(recent)} times within {UNSTABLE_SECONDS:.0f} s"


_decoder = msgspec.json.Decoder(Supervision)


def write_supervision(path: Path, supervision: Supervision) -> None:
    """Replace the note."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(msgspec.json.encode(supervision))
    draft.replace(path)


def read_supervision(path: Path) -> Supervision:
    """Return the note; a publisher without one has never died."""
    with suppress(OSError, msgspec.DecodeError):
        return _decoder.decode(path.read_bytes())
    return Supervision()
