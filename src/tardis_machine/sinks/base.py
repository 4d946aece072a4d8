"""What a sink is: it takes a batch and says, event by event, what became of it.

A sink runs in a thread of its own and knows nothing of queues, retries or files. The outbox
(`sinks.outbox`) decides what to send and what to do with each outcome.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tardis_machine.bronze.routing import Route
from tardis_machine.bronze.series import Series
from tardis_machine.buses.results import Result


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
