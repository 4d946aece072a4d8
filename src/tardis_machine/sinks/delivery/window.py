"""What one bus has read and not settled: events in line, and those of keys in trouble."""

import math
from collections.abc import Callable

from tardis_machine.sinks.base import Event, bytes_of
from tardis_machine.sinks.delivery.batches import EventQueue
from tardis_machine.sinks.delivery.retries import Retries

MAX_EVENTS = 30_000
MAX_BYTES = 12 * 1_048_576
"""A bus reads no further than this; what is beyond waits in the log."""


class Window:
    """Bounded by events and bytes, those being sent included."""

    def __init__(self, retries: Retries, max_events: int = MAX_EVENTS) -> None:
        self.retries = retries
        self._max_events = max_events
        self._queue = EventQueue()
        self.events = 0
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        """Say whether nothing more is to be read."""
        return self.events >= self._max_events or self.bytes >= MAX_BYTES

    @property
    def queued(self) -> int:
        """Return how many events wait in line."""
        return self._queue.events

    def put(self, events: list[Event], now: float) -> None:
        """Add events that were read; the list is not copied."""
        self._queue.put(events, self.count(events), now)

    def count(self, events: list[Event]) -> int:
        """Count events that were read, until they are forgotten; return their bytes."""
        size_bytes = bytes_of(events)
        self.events += len(events)
        self.bytes += size_bytes
        return size_bytes

    def pause(self, now: float, max_events: int, max_bytes: int, delay_seconds: float) -> float:
        """Return how long nothing is worth sending; infinity when there is nothing."""
        ready_at = self.retries.next_ready_at if self.retries else None
        pause = math.inf if ready_at is None else ready_at - now
        oldest_at = self._queue.oldest_read_at
        if oldest_at is not None:
            is_batch = self._queue.events >= max_events or self._queue.bytes >= max_bytes
            pause = min(pause, 0.0 if is_batch else oldest_at + delay_seconds - now)
        return pause

    def cut(self, now: float, max_events: int, max_bytes: int) -> list[Event]:
        """Take events to send: of keys whose pause is over, then those in line."""
        if not self.retries:
            return self._queue.cut(max_events, max_bytes)
        events = self.retries.take_ready(now, max_events, max_bytes)
        if self.retries.has_ready(now):
            return events
        room = max_bytes - bytes_of(events)
        while self._queue.events and len(events) < max_events and (room > 0 or not events):
            fresh = self._queue.cut(max_events - len(events), room)
            free = self.retries.divert(fresh, now)
            events += free
            room -= bytes_of(free)
        return events

    def forget(self, events: list[Event]) -> None:
        """Make room: these are settled."""
        self.events -= len(events)
        self.bytes -= bytes_of(events)

    def take(self, is_taken: Callable[[Event], bool]) -> list[Event]:
        """Take certain events, the oldest of each key first; they still count until forgotten."""
        return [*self.retries.take(is_taken), *self._queue.take(is_taken)]
