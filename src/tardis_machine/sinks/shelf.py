"""Events of keys in trouble that memory has no room for, on disk until their key recovers.

Without it, one destination that is missing would fill the memory of its bus and stop all others.
Blocks hold events of several keys, those of one key side by side; an index in memory says where, a
portion at a time, so that no event is read twice. What a process leaves is read by the next one
before everything else, because it is the oldest.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from tardis_machine.buses.files.log import (
    LogError,
    Position,
    open_segment,
    parse_records,
    payloads_of,
    segment_path,
)
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.fifo import Entry
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.lanes import LaneKey
from tardis_machine.sinks.log_writer import LogWriter, flush
from tardis_machine.sinks.records import RecordPacker, RecordReader
from tardis_machine.sinks.spool import SpoolFullError
from tardis_machine.sinks.tickets import BackedTicket, Ticket
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

Keyed: TypeAlias = tuple[LaneKey, Entry]

PORTION_EVENTS = 1000
"""Events of one key that are read together."""


class _Place(NamedTuple):
    """Where some events of a key are."""

    segment: int
    start: int
    """Of the block."""
    offset: int
    size: int
    """Of their bytes in the payload of the block."""
    taken: int
    """The first of them, which were taken back."""
    events: int
    """Those after them."""

    def split(self, count: int) -> tuple["_Place", "_Place"]:
        """Return the place of the first events and that of the others."""
        return (
            self._replace(events=count),
            self._replace(taken=self.taken + count, events=self.events - count),
        )


class Shelf:
    """Events by key, over a log that nobody else writes.

    Args:
        writer: of the log.
        max_bytes: of all its segments.
        on_lost: called with the number of events a bad disk took.
    """

    def __init__(
        self,
        writer: LogWriter,
        max_bytes: int,
        on_lost: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._writer = writer
        self._max_bytes = max_bytes
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._packer = RecordPacker(Headers({}), names_series=True)
        self._reader = RecordReader(names_series=True)
        self._places: dict[LaneKey, deque[_Place]] = {}
        self._unsettled: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._waiting: deque[tuple[Position, list[Ticket]]] = deque()
        self.events = 0
        """Events that were not taken back yet."""

    def put(self, keyed: Sequence[Keyed]) -> None:
        """Write events; they are settled for their producers once they are flushed to disk.

        Raises:
            SpoolFullError: there is no room.
            OSError: the disk failed; nothing was written.
        """
        portions = list(_portions(keyed))
        packed = [self._packer.pack(events) for _, events in portions]
        payload = b"".join(packed)
        with self._lock:
            if sum(self._sizes.values()) + len(payload) > self._max_bytes:
                raise SpoolFullError(
                    f"The store of parked events in {self._writer.directory} is full."
                )
            start = self._writer.next_byte
            end = self._writer.append(payload)
            offset = 0
            for (key, events), data in zip(portions, packed, strict=True):
                place = _Place(end.segment, start, offset, len(data), 0, len(events))
                self._places.setdefault(key, deque()).append(place)
                offset += len(data)
            self._count(len(keyed), end)
            self._waiting.append((end, [ticket for _, (_, ticket) in keyed]))

    def take(self, key: LaneKey, max_events: int) -> list[Entry]:
        """Take the oldest events of a key back, at most so many."""
        entries: list[Entry] = []
        with self._lock:
            places = self._places.get(key, deque())
            while places and len(entries) < max_events:
                place = places.popleft()
                if place.events > max_events - len(entries):
                    place, rest = place.split(max_events - len(entries))
                    places.appendleft(rest)
                self.events -= place.events
                entries += self._read(place)
            if not places:
                self._places.pop(key, None)
        return entries

    def count(self, key: LaneKey) -> int:
        """Return how many events of a key are here."""
        with self._lock:
            return sum(place.events for place in self._places.get(key, ()))

    def sync(self) -> None:
        """Flush to disk what was written, and settle it."""
        flush(self._writer, self._lock)
        with self._lock:
            durable, due = self._writer.durable_end, []
            while self._waiting and self._waiting[0][0] <= durable:
                due += self._waiting.popleft()[1]
        for ticket in due:
            ticket.settle(1)

    def close(self) -> None:
        """Flush everything and remove what is settled."""
        self.sync()
        with self._lock:
            self._writer.close()
            for number in [number for number, count in self._unsettled.items() if not count]:
                self._remove(number)

    def _count(self, count: int, end: Position) -> None:
        self.events += count
        self._unsettled[end.segment] = self._unsettled.get(end.segment, 0) + count
        self._sizes[end.segment] = end.byte

    def _read(self, place: _Place) -> list[Entry]:
        try:
            with open_segment(self._writer.directory, place.segment) as file:
                _, _, payload = next(payloads_of(file, place.start))
            portion = payload[place.offset : place.offset + place.size]
            events = self._reader.events(list(parse_records(portion)))
        except (LogError, EnvelopeError, OSError, StopIteration) as error:
            log.error(
                "parked events could not be read; events lost",
                segment=place.segment,
                error=str(error),
            )
            self._on_lost(place.events)
            self._settle_locked(place.segment, place.events)
            return []
        chosen = events[place.taken : place.taken + place.events]
        ticket = BackedTicket(partial(self._settle, place.segment, len(chosen)), len(chosen))
        ticket.complete()
        return [(event, ticket) for event in chosen]

    def _settle(self, number: int, count: int) -> None:
        with self._lock:
            self._settle_locked(number, count)

    def _settle_locked(self, number: int, count: int) -> None:
        self._unsettled[number] -= count
        if not self._unsettled[number] and number != self._writer.end.segment:
            self._remove(number)

    def _remove(self, number: int) -> None:
        del self._unsettled[number]
        del self._sizes[number]
        for is_closed in (True, False):
            segment_path(self._writer.directory, number, is_closed=is_closed).unlink(
                missing_ok=True
            )


def _portions(keyed: Sequence[Keyed]) -> Iterator[tuple[LaneKey, list[Event]]]:
    """Yield the events of each key, in portions."""
    by_key: dict[LaneKey, list[Event]] = {}
    for key, (event, _) in keyed:
        by_key.setdefault(key, []).append(event)
    for key, events in by_key.items():
        for start in range(0, len(events), PORTION_EVENTS):
            yield key, events[start : start + PORTION_EVENTS]
