"""What the servers answer to published events."""

import re
from collections.abc import Mapping

import msgspec

from tardis_machine.buses.results import DUPLICATE, OK, Outcome, Result

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
