"""The outcome of sending one event: stored, to be retried, or rejected."""

from enum import StrEnum

import msgspec

from tardis_machine.buses.reasons import Reason


class Outcome(StrEnum):
    """What became of an event."""

    OK = "ok"
    """Acknowledged."""

    TRANSIENT = "transient"
    """Not stored; may succeed later."""

    AMBIGUOUS = "ambiguous"
    """Possibly stored; retried, which may make a duplicate."""

    BAD_RECORD = "bad_record"
    """Can never be stored: too large, or rejected for its content."""

    BAD_DESTINATION = "bad_target"
    """The destination is missing or forbidden; its events wait and are retried."""

    CLIENT_LOST = "client_lost"
    """The client object is unusable; the sink is reopened and the event sent again."""


class Result(msgspec.Struct, frozen=True, gc=False):
    """The outcome of one event, with its reason and detail."""

    outcome: Outcome
    reason: Reason = Reason.NONE
    """A metric label, too."""

    detail: str = ""
    """Error text of the bus, without secrets."""

    retry_after_seconds: float = 0.0
    """Minimum delay before the next attempt."""

    is_duplicate: bool = False
    """The bus had the event already."""

    is_shared: bool = False
    """With `BAD_RECORD`: the bus rejected several events together without naming the invalid one;
    they are sent again in halves until it is found."""


OK = Result(Outcome.OK)
DUPLICATE = Result(Outcome.OK, is_duplicate=True)
HELD_BACK = Result(Outcome.TRANSIENT, Reason.HELD_BACK)
"""Without a detail: the log names the event that failed, not those that wait for it."""
