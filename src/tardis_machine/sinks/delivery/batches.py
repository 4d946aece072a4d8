"""Events that were read, in lists as they came; batches are cut from them."""

from collections import Counter, deque
from collections.abc import Callable, Iterable

from tardis_machine.bronze.cases import AnyCase, PayloadCase
from tardis_machine.sinks.base import Event, bytes_of, event_bytes, fitting

CONTROL_CASES = frozenset((PayloadCase.ERROR, PayloadCase.DISCONNECT))
"""Payloads that are never dropped."""


def cases_of(events: Iterable[Event]) -> Counter[AnyCase]:
    """Count events by payload case."""
    return Counter(event.series.case for event in events)


class _Part:
    """Events of one list that are still waiting."""

    __slots__ = ("events", "read_at", "size_bytes", "start")

    def __init__(self, events: list[Event], size_bytes: int, read_at: float) -> None:
        self.events = events
        self.size_bytes = size_bytes
        self.read_at = read_at
        self.start = 0

    def __len__(self) -> int:
        return len(self.events) - self.start


class EventQueue:
    """A queue of event lists."""

    def __init__(self) -> None:
        self._parts: deque[_Part] = deque()
        self.events = 0
        self.bytes = 0

    @property
    def oldest_read_at(self) -> float | None:
        """Return when the first event was read."""
        return self._parts[0].read_at if self._parts else None

    def put(self, events: list[Event], size_bytes: int, now: float) -> None:
        """Add a list of events; it is not copied."""
        if events:
            self._parts.append(_Part(events, size_bytes, now))
            self.events += len(events)
            self.bytes += size_bytes

    def cut(self, max_events: int, max_bytes: int) -> list[Event]:
        """Take the first events, as many as fit."""
        events: list[Event] = []
        room = max_bytes
        while self._parts and len(events) < max_events:
            part = self._parts[0]
            count = len(part)
            if count > max_events - len(events) or part.size_bytes > room:
                if events and event_bytes(part.events[part.start]) > room:
                    break
                count = fitting(part.events, part.start, max_events - len(events), room)
            room -= self._take(part, count, events)
        self.events -= len(events)
        self.bytes -= max_bytes - room
        return events

    def take(self, is_taken: Callable[[Event], bool]) -> list[Event]:
        """Take certain events, wherever they stand."""
        taken: list[Event] = []
        parts, self._parts = self._parts, deque()
        self.events = self.bytes = 0
        for part in parts:
            waiting = part.events[part.start :]
            taken += [event for event in waiting if is_taken(event)]
            left = [event for event in waiting if not is_taken(event)]
            self.put(left, bytes_of(left), part.read_at)
        return taken

    def _take(self, part: _Part, count: int, events: list[Event]) -> int:
        """Move events from the first list to a batch and return their bytes."""
        if count == len(part):
            self._parts.popleft()
            events += part.events[part.start :] if part.start else part.events
            return part.size_bytes
        taken = part.events[part.start : part.start + count]
        events += taken
        size_bytes = bytes_of(taken)
        part.start += count
        part.size_bytes -= size_bytes
        return size_bytes
