"""Acknowledgements and errors of published events."""

import re
from collections.abc import Mapping

import msgspec

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import DUPLICATE, OK, Outcome, Result

STREAM_FULL = 10077
TOO_LARGE = 10054
NO_RESPONDERS = 503

_REFUSALS: dict[int, tuple[Outcome, Reason]] = {
    STREAM_FULL: (Outcome.BAD_DESTINATION, Reason.STREAM_FULL),
    TOO_LARGE: (Outcome.BAD_RECORD, Reason.TOO_LARGE),
    # Another stream takes the subject, or the stream takes nothing.
    10060: (Outcome.BAD_DESTINATION, Reason.WRONG_STREAM),
    10109: (Outcome.BAD_DESTINATION, Reason.STREAM_SEALED),
    10039: (Outcome.BAD_DESTINATION, Reason.JETSTREAM_DISABLED),
    10076: (Outcome.BAD_DESTINATION, Reason.JETSTREAM_DISABLED),
    # The event before it is missing: the chain starts again with the next call.
    10070: (Outcome.TRANSIENT, Reason.OUT_OF_ORDER),
    10071: (Outcome.TRANSIENT, Reason.OUT_OF_ORDER),
    # The first copy of the same message is being stored.
    10158: (Outcome.TRANSIENT, Reason.IN_PROCESS),
}
LOGIN_REFUSALS = ("authorization", "authentication", "account", "expired", "revoked")
"""Words in the error of a server that rejects the credentials."""

_VIOLATION = re.compile(r'permissions violation for publish to "([^"]*)"')


class ApiError(msgspec.Struct, frozen=True):
    """An error of JetStream."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class PubAck(msgspec.Struct, frozen=True):
    """The acknowledgement of one published message."""

    error: ApiError | None = None
    duplicate: bool = False


_acks = msgspec.json.Decoder(PubAck)


def read_ack(data: bytes, headers: Mapping[str, str] | None) -> Result:
    """Return the result of an event from its acknowledgement."""
    if headers and headers.get("Status") == str(NO_RESPONDERS):
        return Result(Outcome.BAD_DESTINATION, Reason.NO_DESTINATION, "no stream has this subject")
    try:
        ack = _acks.decode(data)
    except msgspec.DecodeError as error:
        return Result(Outcome.AMBIGUOUS, Reason.UNREADABLE_ACK, str(error))
    if ack.error is None:
        return DUPLICATE if ack.duplicate else OK
    return read_error(ack.error)


def read_error(error: ApiError) -> Result:
    """Return the result of an event from an error."""
    # 5xx is transient; anything else needs the operator and is retried rarely.
    is_busy = error.code in (0, 500, 503)
    default = (
        (Outcome.TRANSIENT, Reason.UNAVAILABLE)
        if is_busy
        else (Outcome.BAD_DESTINATION, Reason.REFUSED)
    )
    outcome, reason = _REFUSALS.get(error.err_code, default)
    return Result(outcome, reason, f"{error.err_code}: {error.description}")


def forbidden_subject(text: str) -> str | None:
    """Return the subject, in lower case, that an error text forbids to publish to."""
    found = _VIOLATION.search(text.lower())
    return found[1] if found else None
