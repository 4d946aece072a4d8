"""Events that could not be delivered, kept readable and ready to be sent again.

A file `dead-letter-<date>.tmdl` holds two lines per event: a JSON object that says what happened
(`DeadLetter`), then the envelope in base64. `tardis-machine publish --redrive FILE` sends them.
"""

import base64
import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tardis_machine.bronze.routing import Route
from tardis_machine.buses.files.log import LogRecord, pack_headers
from tardis_machine.buses.results import Result
from tardis_machine.model.errors import SinkError
from tardis_machine.model.time import Clock, us_text
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import DEAD_LETTER_ERROR, DEAD_LETTER_REASON, Headers

SUFFIX = ".tmdl"
_FILES_AT_MOST = 4
"""A full directory loses a quarter of its letters, not all of them."""

_NAME = re.compile(r"dead-letter-(\d{4}-\d\d-\d\d)(?:\.(\d+))?\.tmdl")


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why an event was given up, and what is needed to send it again."""

    time: str
    bus: str
    target: str
    key: str
    headers: dict[str, str]
    event_id: str
    reason: str
    error: str
    attempts: int
    envelope: bytes = b""

    def record(self) -> LogRecord:
        """Return the event as a log record."""
        return LogRecord(self.target, self.key, pack_headers(self.headers), self.envelope)


class DeadLetters:
    """The dead letters of one bus, in files of one day each, the oldest removed when too many.

    Args:
        directory: where the files are.
        bus: name of the bus.
        max_bytes: total of all files.
        headers: what the bus sends with events.
        clock: what time it is.
        on_lost: called with the number of letters that were removed unread.
    """

    def __init__(
        self,
        directory: Path,
        bus: str,
        max_bytes: int,
        headers: Headers,
        clock: Clock,
        on_lost: Callable[[int], None],
    ) -> None:
        self._directory = directory
        self._bus = bus
        self._max_bytes = max_bytes
        self._headers = headers
        self._clock = clock
        self._on_lost = on_lost

    def add(self, letters: Sequence[tuple[Event, Result]]) -> None:
        """Write letters and flush them to disk; OSError when that fails."""
        now = us_text(self._clock())
        text = b"".join(self._lines(event, result, now) for event, result in letters)
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._path(now[:10], len(text))
        with path.open("ab") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self._remove_oldest(keep=path)

    def _lines(self, event: Event, result: Result, now: str) -> bytes:
        letter = DeadLetter(
            time=now,
            bus=self._bus,
            target=event.route.destination,
            key=event.route.key,
            headers=dict(self._headers.of(event)),
            event_id=event.event_id,
            reason=str(result.reason),
            error=result.detail,
            attempts=event.attempts,
        )
        described = msgspec.to_builtins(letter)
        del described["envelope"]
        return msgspec.json.encode(described) + b"\n" + base64.b64encode(event.data) + b"\n"

    def _path(self, date: str, size_bytes: int) -> Path:
        """Return the file of the day, or its next part when that is full."""
        path = self._directory / f"dead-letter-{date}{SUFFIX}"
        part = 0
        while path.exists() and (
            path.stat().st_size + size_bytes > self._max_bytes // _FILES_AT_MOST
        ):
            part += 1
            path = self._directory / f"dead-letter-{date}.{part}{SUFFIX}"
        return path

    def _remove_oldest(self, keep: Path) -> None:
        paths = letter_files(self._directory)
        total = sum(path.stat().st_size for path in paths)
        for path in paths:
            if total <= self._max_bytes or path == keep:
                return
            total -= path.stat().st_size
            lost = path.read_bytes().count(b"\n") // 2
            path.unlink()
            self._on_lost(lost)


def letter_files(directory: Path) -> list[Path]:
    """Return the files of dead letters, the oldest first."""
    names = ((path, _NAME.fullmatch(path.name)) for path in directory.glob(f"*{SUFFIX}"))
    found = [(match[1], int(match[2] or 0), path) for path, match in names if match]
    return [path for _, _, path in sorted(found)]


def read_letters(path: Path) -> Iterator[DeadLetter]:
    """Yield the letters of a file; a last one that was cut off by a crash is left out.

    Raises:
        SinkError: the file holds something else.
    """
    decoder = msgspec.json.Decoder(DeadLetter)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            envelope = next(file, b"")
            if not envelope.endswith(b"\n"):
                return
            try:
                letter = decoder.decode(line)
                yield msgspec.structs.replace(letter, envelope=base64.b64decode(envelope))
            except (msgspec.DecodeError, ValueError) as error:
                raise SinkError(
                    f"{path}: entry {number} is not a valid dead letter: {error}"
                ) from error


def dead_letter_event(event: Event, result: Result, target: str) -> Event:
    """Return an event addressed to the destination of dead letters, with the reason as headers."""
    why = {DEAD_LETTER_REASON: str(result.reason), DEAD_LETTER_ERROR: result.detail}
    series = dataclasses.replace(event.series, meta={**event.series.meta, **why})
    return msgspec.structs.replace(
        event, route=Route(target, event.route.key), series=series, attempts=0
    )
