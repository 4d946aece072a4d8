"""What the servers answer to published events, and who still waits for an answer."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tardis_machine.sinks.base import DUPLICATE, OK, Event, Outcome, Result

STREAM_FULL = 10077
TOO_LARGE = 10054
NO_RESPONDERS = "503"
NO_STREAM = "no_stream"

_REFUSALS: dict[int, tuple[Outcome, str]] = {
    STREAM_FULL: (Outcome.BAD_TARGET, "stream_full"),
    TOO_LARGE: (Outcome.BAD_RECORD, "too_large"),
    # Another stream takes the subject, or the stream takes nothing.
    10060: (Outcome.BAD_TARGET, "wrong_stream"),
    10109: (Outcome.BAD_TARGET, "stream_sealed"),
    10039: (Outcome.BAD_TARGET, "jetstream_disabled"),
    10076: (Outcome.BAD_TARGET, "jetstream_disabled"),
    # The event before it is missing: the chain starts again with the next call.
    10070: (Outcome.TRANSIENT, "out_of_order"),
    10071: (Outcome.TRANSIENT, "out_of_order"),
    # The first copy of the same message is being stored.
    10158: (Outcome.TRANSIENT, "in_process"),
}
_VIOLATION = re.compile(r'permissions violation for publish to "([^"]*)"')


class ApiError(msgspec.Struct, frozen=True):
    """An error of JetStream."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class PubAck(msgspec.Struct, frozen=True):
    """The answer to one published message."""

    error: ApiError | None = None
    duplicate: bool = False


_acks = msgspec.json.Decoder(PubAck)


def read_ack(data: bytes, headers: Mapping[str, str] | None) -> Result:
    """Say what an answer means for its event."""
    if headers and headers.get("Status") == NO_RESPONDERS:
        return Result(Outcome.BAD_TARGET, NO_STREAM, "no stream takes the subject")
    try:
        ack = _acks.decode(data)
    except msgspec.DecodeError as error:
        return Result(Outcome.AMBIGUOUS, "unreadable_ack", str(error))
    if ack.error is None:
        return DUPLICATE if ack.duplicate else OK
    return read_error(ack.error)


def read_error(error: ApiError) -> Result:
    """Say what a refusal means for its event."""
    # A server that cannot now may later; one that will not is asked again, but rarely.
    is_busy = error.code in (0, 500, 503)
    default = (Outcome.TRANSIENT, "unavailable") if is_busy else (Outcome.BAD_TARGET, "refused")
    outcome, reason = _REFUSALS.get(error.err_code, default)
    return Result(outcome, reason, f"{error.err_code}: {error.description}")


def forbidden_subject(text: str) -> str | None:
    """Return the subject, in lower case, that an error text forbids to publish to."""
    found = _VIOLATION.search(text.lower())
    return found[1] if found else None


class Window:
    """Numbered events on their way, each waiting for its answer.

    Numbers go on from window to window, so that a late answer meets nobody.
    """

    def __init__(self, events: Sequence[Event], first: int) -> None:
        self.first = first
        self.results: list[Result | None] = [None] * len(events)
        self.unsettled = len(events)
        self._events = events
        self._troubles: set[Outcome] = set()
        self._settled = asyncio.get_running_loop().create_future()

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """Take positive answers, many at once."""
        results, first, count = self.results, self.first, len(self.results)
        fresh = 0
        for number in numbers:
            place = number - first
            if 0 <= place < count and results[place] is None:
                results[place] = OK
                fresh += 1
        self._note(fresh)

    def settle(self, number: int, result: Result) -> None:
        """Take one answer."""
        place = number - self.first
        if 0 <= place < len(self.results) and self.results[place] is None:
            self.results[place] = result
            if result is not OK:
                self._troubles.add(result.outcome)
            self._note(1)

    def settle_subject(self, subject: str, result: Result) -> None:
        """Give all waiting events of a subject, in lower case, the same result."""
        for place, event in enumerate(self._events):
            if event.route.destination.lower() == subject:
                self.settle(self.first + place, result)

    def settle_rest(self, result: Result) -> None:
        """Give all waiting events the same result."""
        for number in range(self.first, self.first + len(self.results)):
            self.settle(number, result)

    @property
    def is_all_ok(self) -> bool:
        """Say whether every answer so far was a plain yes."""
        return not self._troubles

    @property
    def is_held_up(self) -> bool:
        """Say whether an event has to be sent again, so that later ones must wait for it."""
        return not self._troubles <= {Outcome.OK, Outcome.BAD_RECORD}

    async def wait(self, seconds: float) -> bool:
        """Wait for all answers; say no when none came for so long."""
        while not self._settled.done():
            before = self.unsettled
            await asyncio.wait([self._settled], timeout=seconds)
            if self.unsettled == before:
                break
        return self._settled.done()

    def _note(self, fresh: int) -> None:
        self.unsettled -= fresh
        if self.unsettled == 0 and not self._settled.done():
            self._settled.set_result(None)
