"""Events of one bus in memory: the queue, and the lanes of keys in trouble."""

import math
from collections.abc import Sequence

from tardis_machine.sinks.base import Event
from tardis_machine.sinks.fifo import Batch, Entry, Fifo, bytes_of, fitting
from tardis_machine.sinks.lanes import Lanes
from tardis_machine.sinks.tickets import Ticket


class Backlog:
    """Bounded by events and bytes, those being sent included. Not for several threads at once."""

    def __init__(self, lanes: Lanes, max_events: int, max_bytes: int) -> None:
        self.lanes = lanes
        self._fifo = Fifo()
        self._max_events = max_events
        self._max_bytes = max_bytes
        self.events = 0
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        """Say whether there is no room at all."""
        return self.events >= self._max_events or self.bytes >= self._max_bytes

    @property
    def free_events(self) -> int:
        """Return for how many events there is room."""
        return 0 if self.is_full else self._max_events - self.events

    @property
    def waiting(self) -> int:
        """Return how many events wait in the queue."""
        return self._fifo.events

    @property
    def oldest_at(self) -> float | None:
        """Return when the oldest waiting event was accepted."""
        times = (self._fifo.oldest_at, self.lanes.oldest_at)
        return min((each for each in times if each is not None), default=None)

    def room_for(self, events: Sequence[Event]) -> int:
        """Return how many of these events fit; one always does where there is room at all."""
        if self.is_full:
            return 0
        return fitting(events, 0, self._max_events - self.events, self._max_bytes - self.bytes)

    def put(self, events: list[Event], ticket: Ticket) -> None:
        """Queue events; the list is not copied."""
        size_bytes = bytes_of(events)
        self._fifo.put(events, ticket, size_bytes)
        self.events += len(events)
        self.bytes += size_bytes

    def pause(self, now: float, max_events: int, max_bytes: int, delay_seconds: float) -> float:
        """Return how long nothing is worth sending; infinity when there is nothing."""
        ready_at = self.lanes.next_ready_at if self.lanes else None
        pause = math.inf if ready_at is None else ready_at - now
        oldest_at = self._fifo.oldest_at
        if oldest_at is not None and not self.is_held_up:
            is_batch = self._fifo.events >= max_events or self._fifo.bytes >= max_bytes
            pause = min(pause, 0.0 if is_batch else oldest_at + delay_seconds - now)
        return pause

    def cut(self, now: float, max_events: int, max_bytes: int) -> Batch:
        """Take events to send: of lanes whose pause is over, then from the queue."""
        if not self.lanes:
            return self._fifo.cut(max_events, max_bytes)
        entries = self.lanes.take_ready(now, max_events, max_bytes)
        room = max_bytes - bytes_of(event for event, _ in entries)
        while self._fifo and len(entries) < max_events and (room > 0 or not entries):
            if self.is_held_up:
                break
            fresh = self._fifo.cut(max_events - len(entries), room)
            free = self.lanes.divert(fresh.entries())
            entries += free
            room -= bytes_of(event for event, _ in free)
        return Batch.of(entries)

    @property
    def is_held_up(self) -> bool:
        """Say whether the queue waits behind events that must go to disk first."""
        return bool(self.lanes.outgoing)

    @property
    def is_crowded(self) -> bool:
        """Say whether keys in trouble take the room of the others."""
        held = self.lanes.events
        return held * 2 > self._max_events or (self.is_full and held * 4 > self.events)

    def remember(self, entries: Sequence[Entry]) -> None:
        """Count events that came back from disk."""
        self.events += len(entries)
        self.bytes += bytes_of(event for event, _ in entries)

    def forget(self, count: int, size_bytes: int) -> None:
        """Make room: so many events are settled."""
        self.events -= count
        self.bytes -= size_bytes

    def make_room(self, events: Sequence[Event]) -> list[Entry]:
        """Remove as many of the oldest events as others need, control payloads last.

        Events that are being sent stay.
        """
        count = self.events + len(events) - self._max_events
        size_bytes = self.bytes + bytes_of(events) - self._max_bytes
        dropped: list[Entry] = []
        for controls in (False, True):
            for store in (self._fifo, self.lanes):
                left = count - len(dropped)
                left_bytes = size_bytes - bytes_of(event for event, _ in dropped)
                if left > 0 or left_bytes > 0:
                    dropped += store.drop_oldest(left, left_bytes, controls=controls)
        self.forget(len(dropped), bytes_of(event for event, _ in dropped))
        return dropped

    def drain(self) -> list[Entry]:
        """Take everything that waits, the oldest first per key."""
        entries = [*self.lanes.drain(), *self._fifo.drain()]
        self.forget(len(entries), bytes_of(event for event, _ in entries))
        return entries
