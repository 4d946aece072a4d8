"""What the parent of the publisher process notes of its deaths, for every worker to read."""

from contextlib import suppress

import msgspec

from tardis_machine.sinks.publisher.shared_file import SharedFile

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


def write_supervision(file: SharedFile, supervision: Supervision) -> None:
    """Replace the note; OSError when it cannot be written."""
    file.write(msgspec.json.encode(supervision))


def read_supervision(file: SharedFile) -> Supervision:
    """Return the note; a publisher without one has never died."""
    with suppress(msgspec.DecodeError):
        return _decoder.decode(file.read() or b"")
    return Supervision()
