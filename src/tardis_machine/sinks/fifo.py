"""Events waiting in memory, in lists as they came; batches are cut from them."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.tickets import Ticket

OVERHEAD_BYTES = 200
"""What key, ids and headers of one event are taken to need beside its envelope."""

CONTROL_CASES = frozenset((PayloadCase.ERROR, PayloadCase.DISCONNECT))
"""Payloads that are dropped last."""

Entry: TypeAlias = tuple[Event, Ticket]


class Batch(NamedTuple):
    """Events to send together, and whose they are."""

    events: list[Event]
    shares: list[tuple[Ticket, int]]
    """Tickets of consecutive events."""

    def entries(self) -> list[Entry]:
        """Return every event with its ticket."""
        tickets = (ticket for ticket, count in self.shares for _ in range(count))
        return list(zip(self.events, tickets, strict=True))

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Batch":
        """Make a batch of single events."""
        pairs = list(entries)
        return cls([event for event, _ in pairs], [(ticket, 1) for _, ticket in pairs])


def event_bytes(event: Event) -> int:
    """Return what an event counts against limits in bytes."""
    return len(event.data) + OVERHEAD_BYTES


def bytes_of(events: Iterable[Event]) -> int:
    """Return what events count against limits in bytes."""
    return sum([len(event.data) + OVERHEAD_BYTES for event in events])


def fitting(events: Sequence[Event], start: int, max_events: int, max_bytes: int) -> int:
    """Return how many events from `start` on fit; at least one, so that large ones get through."""
    count, room = 0, max_bytes
    for event in events[start : start + max(1, max_events)]:
        room -= len(event.data) + OVERHEAD_BYTES
        if room < 0 and count:
            break
        count += 1
    return count


class _Chunk:
    """Events of one list that are still waiting."""

    __slots__ = ("events", "size_bytes", "start", "ticket")

    def __init__(self, events: list[Event], ticket: Ticket, size_bytes: int) -> None:
        self.events = events
        self.ticket = ticket
        self.size_bytes = size_bytes
        self.start = 0

    def __len__(self) -> int:
        return len(self.events) - self.start


class Fifo:
    """A queue of event lists. Not for several threads at once."""

    def __init__(self) -> None:
        self._chunks: deque[_Chunk] = deque()
        self.events = 0
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._chunks)

    @property
    def oldest_at(self) -> float | None:
        """Return when the first event was accepted."""
        return self._chunks[0].events[self._chunks[0].start].enqueued_at if self._chunks else None

    def put(self, events: list[Event], ticket: Ticket, size_bytes: int) -> None:
        """Add a list of events; it is not copied."""
        self._chunks.append(_Chunk(events, ticket, size_bytes))
        self.events += len(events)
        self.bytes += size_bytes

    def cut(self, max_events: int, max_bytes: int) -> Batch:
        """Take the first events, as many as fit."""
        events: list[Event] = []
        shares: list[tuple[Ticket, int]] = []
        room = max_bytes
        while self._chunks and len(events) < max_events:
            chunk = self._chunks[0]
            count = len(chunk)
            if count > max_events - len(events) or chunk.size_bytes > room:
                if events and event_bytes(chunk.events[chunk.start]) > room:
                    break
                count = fitting(chunk.events, chunk.start, max_events - len(events), room)
            room -= self._take(chunk, count, events)
            shares.append((chunk.ticket, count))
        self.events -= len(events)
        self.bytes -= max_bytes - room
        return Batch(events, shares)

    def _take(self, chunk: _Chunk, count: int, events: list[Event]) -> int:
        """Move events from the first list to a batch and return their bytes."""
        if count == len(chunk):
            self._chunks.popleft()
            events += chunk.events[chunk.start :] if chunk.start else chunk.events
            return chunk.size_bytes
        taken = chunk.events[chunk.start : chunk.start + count]
        events += taken
        size_bytes = bytes_of(taken)
        chunk.start += count
        chunk.size_bytes -= size_bytes
        return size_bytes

    def drop_oldest(self, count: int, size_bytes: int, *, controls: bool) -> list[Entry]:
        """Remove the oldest events until so many, and so many bytes, are gone.

        Args:
            count: events to remove at least.
            size_bytes: bytes to remove at least.
            controls: also remove control payloads.
        """
        dropped: list[Entry] = []
        kept: deque[_Chunk] = deque()
        freed = 0
        while self._chunks and (len(dropped) < count or freed < size_bytes):
            chunk = self._chunks.popleft()
            waiting = chunk.events[chunk.start :]
            stay: list[Event] = []
            for event in waiting:
                is_enough = len(dropped) >= count and freed >= size_bytes
                if is_enough or (not controls and event.series.case in CONTROL_CASES):
                    stay.append(event)
                else:
                    dropped.append((event, chunk.ticket))
                    freed += event_bytes(event)
            if stay:
                kept.append(_Chunk(stay, chunk.ticket, bytes_of(stay)))
        self._chunks.extendleft(reversed(kept))
        self.events -= len(dropped)
        self.bytes -= freed
        return dropped

    def drain(self) -> list[Entry]:
        """Take everything."""
        entries = [
            (event, chunk.ticket) for chunk in self._chunks for event in chunk.events[chunk.start :]
        ]
        self._chunks.clear()
        self.events = self.bytes = 0
        return entries


def cases_of(events: Iterable[Event]) -> Counter[PayloadCase]:
    """Count events by payload case."""
    return Counter(event.series.case for event in events)
