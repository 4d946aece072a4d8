"""What a sink is: it takes a batch and says, event by event, what became of it.

A sink runs in a thread of its own and knows nothing of queues, retries or files. The outbox
(`sinks.outbox`) decides what to send and what to do with each outcome.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from tardis_machine.bronze.routing import Route
from tardis_machine.bronze.series import Series


class Event(msgspec.Struct, gc=False):
    """One accepted event on its way to one bus; a retry sends identical bytes."""

    route: Route
    series: Series
    data: bytes
    event_id: str
    """The identity of the event: the same for every copy of it."""

    delivery_id: str
    """Names this acceptance: `producer-boot-sequence`."""

    enqueued_at: float
    """Monotonic seconds."""

    attempts: int = 0


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

    BAD_TARGET = "bad_target"
    """The destination is missing or forbidden; its lane waits, nothing is thrown away."""

    CLIENT_LOST = "client_lost"
    """The client object is unusable; the sink is reopened and the event sent again."""


class Result(msgspec.Struct, frozen=True, gc=False):
    """The outcome of one event, with what is worth saying about it."""

    outcome: Outcome
    reason: str = ""
    """A short constant text, such as `throttled`; a metric label."""

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
HELD_BACK = Result(Outcome.TRANSIENT, "held_back", "an earlier event of its key failed")


class Sink(Protocol):
    """One bus. All calls come from one thread; `open` comes first and again after `CLIENT_LOST`."""

    max_batch_events: int
    max_batch_bytes: int
    max_batch_delay_seconds: float
    keeps_order: bool
    """The client itself keeps the order per key while it retries, as librdkafka does: events that
    come back are held up per destination, not per key."""

    def open(self) -> None:
        """Connect; raise SinkUnavailableError (retried) or SinkError (parks the bus)."""

    def send(self, events: Sequence[Event]) -> Sequence[Result]:
        """Send events and return one result for each, in their order.

        Events of one key stand in the order in which they must be stored. After an event that was
        not stored, later events of its key are not stored either, and say `TRANSIENT`.
        """

    def idle(self, seconds: float) -> None:
        """Let the client do its own work for at most this long while nothing is to be sent."""

    def close(self, seconds: float) -> None:
        """Release the client within the given time."""
