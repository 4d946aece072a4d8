"""What a sink is: it takes a batch and says, event by event, what became of it.

A sink runs in the thread of its bus and knows nothing of logs, retries or positions. The sender
(`sinks.delivery.sender`) decides what to send and what to do with each outcome.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Protocol

import msgspec

from tardis_machine.bronze.routing import Route
from tardis_machine.bronze.series import Series
from tardis_machine.buses.results import Result
from tardis_machine.sinks.storage.in_flight import ChunkInFlight

OVERHEAD_BYTES = 200
"""What key, ids and headers of one event are taken to need beside its envelope."""


class Event(msgspec.Struct, gc=False):
    """One accepted event on its way to one bus; a retry sends identical bytes."""

    route: Route
    series: Series
    data: bytes
    event_id: str
    """The identity of the event: the same for every copy of it."""

    delivery_id: str
    """Names this acceptance: log, chunk and line; it rises within a log."""

    accepted_at: float
    """When its chunk was appended to the log, in seconds since 1970."""

    place: ChunkInFlight | None = None
    """The chunk it came from; None outside of a log."""

    line: int = 0
    """Which event of that chunk it is."""

    attempts: int = 0


def event_bytes(event: Event) -> int:
    """Return what an event counts against limits in bytes."""
    return len(event.data) + OVERHEAD_BYTES


def bytes_of(events: Iterable[Event]) -> int:
    """Return what events count against limits in bytes."""
    return sum([len(event.data) + OVERHEAD_BYTES for event in events])


def fitting(events: Sequence[Event], start: int, max_events: int, max_bytes: int) -> int:
    """Return how many events from `start` on fit; at least one, so that large ones get through."""
    count, room = 0, max_bytes
    for event in islice(events, start, start + max(1, max_events)):
        room -= len(event.data) + OVERHEAD_BYTES
        if room < 0 and count:
            break
        count += 1
    return count


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
