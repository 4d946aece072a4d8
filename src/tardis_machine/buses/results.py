"""What a bus answers for one event: stored, to be sent again, or refused."""

from enum import StrEnum

import msgspec

from tardis_machine.buses.reasons import Reason


class Outcome(StrEnum):
    """What became of an event."""

    OK = "ok"
    """Acknowledged."""

    TRANSIENT = "transient"
    """Surely not stored; may succeed later."""

    AMBIGUOUS = "ambiguous"
    """Maybe stored; sent again, which may make a duplicate."""

    BAD_RECORD = "bad_record"
    """Can never be stored: too large, or refused for its content."""

    BAD_DESTINATION = "bad_target"
    """The destination is missing or forbidden; its lane waits, nothing is thrown away."""

    CLIENT_LOST = "client_lost"
    """The client object is unusable; the sink is reopened and the event sent again."""


class Result(msgspec.Struct, frozen=True, gc=False):
    """The outcome of one event, with what is worth saying about it."""

    outcome: Outcome
    reason: Reason = Reason.NONE
    """A metric label, too."""

    detail: str = ""
    """What the bus said, without secrets."""

    retry_after_seconds: float = 0.0
    """At least this long before the next attempt."""

    is_duplicate: bool = False
    """The bus had the event already."""

    is_shared: bool = False
    """With `BAD_RECORD`: the bus refused several events together and did not say which one is to
    blame; the outbox sends them in halves until it stands alone."""


OK = Result(Outcome.OK)
DUPLICATE = Result(Outcome.OK, is_duplicate=True)
HELD_BACK = Result(Outcome.TRANSIENT, Reason.HELD_BACK)
"""Without a detail: the log names the event that failed, not those that wait for it."""
