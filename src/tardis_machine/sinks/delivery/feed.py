"""One log as one bus reads it: chunks become events, and settled events move the position."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec

from tardis_machine.model.time import SECOND_US
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.storage.chunks import HEAD_BYTES, parse_head
from tardis_machine.sinks.storage.in_flight import ChunkInFlight, InFlight
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.positions import Position, PositionFile
from tardis_machine.sinks.storage.quarantine import set_aside
from tardis_machine.sinks.storage.reader import BadBytes, Chunk, ChunkReader, first_offset
from tardis_machine.sinks.storage.skipped import SkippedRange, SkippedRanges

MakeEvents: TypeAlias = Callable[[Chunk, ChunkInFlight], list[Event]]
"""Makes the events of a chunk and settles those that are not to be sent."""


class Feed:
    """Reads one log for one bus.

    Args:
        directory: of the log.
        log_id: its name.
        position_path: where the position is kept.
        make_events: makes the events of a chunk.
        quarantine: where bytes go that cannot be read.
        skipped: ranges of the log that are not to be read.
    """

    def __init__(
        self,
        directory: Path,
        log_id: str,
        position_path: Path,
        make_events: MakeEvents,
        quarantine: Path,
        skipped: SkippedRanges | None = None,
    ) -> None:
        self.directory = directory
        self.log_id = log_id
        self._make_events = make_events
        self._quarantine = quarantine
        self._file = PositionFile(position_path, is_writable=True)
        self._reader = ChunkReader(directory)
        self.skipped = skipped
        start = self._file.load() or Position(offset=self._first_offset())
        self.in_flight = InFlight(start)
        self._offset = start.offset
        self._number = start.number
        self._next_event = start.events

    @property
    def position(self) -> Position:
        """Return the place before which everything is settled."""
        return self.in_flight.position

    @property
    def offset(self) -> int:
        """Return where the next chunk is read."""
        return self._offset

    @property
    def number(self) -> int:
        """Return the number of the last chunk that was read."""
        return self._number

    def totals(self) -> list[int]:
        """Count all settled events by `Settled`, those in skipped ranges included."""
        counts = self.in_flight.totals()
        if self.skipped:
            counts[Settled.OVERFLOW] += self.skipped.dropped_after(self._number)
        return counts

    @property
    def next_appended_at(self) -> float | None:
        """Return when the first chunk that is not settled was appended, in seconds since 1970."""
        offset = self.position.offset
        skipped = self.skipped.at(offset) if self.skipped else None
        head = skipped.chunk.head if skipped else self._reader.head_at(offset)
        return None if head is None else head.appended_us / SECOND_US

    @property
    def has_more(self) -> bool:
        """Say whether there is a chunk that was not read yet."""
        return self._next() is not None

    def read(self) -> list[Event] | None:
        """Read one chunk and return its events that are to be sent; None at the end of the log.

        Raises:
            OSError: the log cannot be read now.
        """
        found = self._next()
        if found is None:
            return self._jump() if self._offset < first_offset(self.directory) else None
        if isinstance(found, BadBytes):
            self._set_aside(found)
            return []
        known = self._known(found)
        if known is None and found.head.number <= self._number:
            # Written again after a flush that failed.
            self._pass(found.start, found.end, 0)
            return []
        place = known or self._take(found)
        events = self.events_of(found, place)
        self._offset = found.end
        return events

    def events_of(self, chunk: Chunk, place: ChunkInFlight) -> list[Event]:
        """Return the events of a chunk that are to be sent; none when its context is unreadable."""
        try:
            return self._make_events(chunk, place)
        except msgspec.DecodeError as error:
            data = self._reader.bytes_of(chunk)
            reason = f"its context cannot be decoded: {error}"
            set_aside(self._quarantine, self.log_id, BadBytes(chunk.start, chunk.end, data, reason))
            place.settle_rest(Settled.QUARANTINED)
            return []

    def advance(self) -> bool:
        """Move the position over what is settled by now, and save it; say whether it moved."""
        if not self.in_flight.advance():
            return False
        self._file.save(self.position)
        if self.skipped:
            self.skipped.forget_before(self.position.offset)
        return True

    def rewind(self) -> None:
        """Read again what was read and is not settled; outcomes so far are kept."""
        for place in self.in_flight:
            if place.waiting:
                self._offset = place.start
                return

    def skip_chunk(self, settle: Callable[[Chunk, ChunkInFlight], None]) -> bool:
        """Read one chunk that is given up; False at the end of the log."""
        found = self._next()
        if found is None:
            return False
        if isinstance(found, BadBytes):
            self._set_aside(found)
        elif found.head.number <= self._number:
            self._pass(found.start, found.end, 0)
        else:
            settle(found, self._take(found))
            self._offset = found.end
        return True

    def close(self) -> None:
        """Close the files; those that are needed again are opened again."""
        self._reader.close()
        self._file.close()

    def _first_offset(self) -> int:
        """Return where the log begins: its first segments may be gone because they are skipped."""
        first = first_offset(self.directory)
        return min(first, self.skipped.start) if self.skipped else first

    def _next(self) -> Chunk | BadBytes | None:
        """Return what is to be read next; None at the end of the log."""
        skipped = self._skipped_here()
        return self._reader.read(self._offset) if skipped is None else skipped.chunk

    def _skipped_here(self) -> SkippedRange | None:
        return self.skipped.at(self._offset) if self.skipped else None

    def _known(self, chunk: Chunk) -> ChunkInFlight | None:
        """Return what is known of a chunk that was read before."""
        if not self.in_flight or chunk.head.number > self._number:
            return None
        return next((place for place in self.in_flight if place.start == chunk.start), None)

    def _take(self, chunk: Chunk) -> ChunkInFlight:
        """Note that a chunk is on its way; what is missing before it could not be read."""
        head = chunk.head
        if head.first_event > self._next_event:
            missing = head.first_event - self._next_event
            self._pass(self._offset, chunk.start, missing, Settled.QUARANTINED)
        place = ChunkInFlight(self, chunk.start, chunk.end, head.number, head.events)
        if skipped := self._skipped_here():
            place.outcomes[skipped.kept :] = bytes([Settled.OVERFLOW]) * skipped.dropped
        if chunk.start == self.position.offset:
            place.skip(self.position.line)
        self.in_flight.add(place)
        self._number, self._next_event = head.number, head.first_event + head.events
        return place

    def _set_aside(self, bad: BadBytes) -> None:
        set_aside(self._quarantine, self.log_id, bad)
        head = parse_head(bad.data[:HEAD_BYTES])
        events = 0
        # One that was not written to its end was not accepted: the next has its number.
        if head and head.number > self._number and len(bad.data) == head.total_bytes:
            self._number, self._next_event = head.number, head.first_event + head.events
            events = head.events
        self._pass(bad.start, bad.end, events, Settled.QUARANTINED)

    def _jump(self) -> list[Event]:
        """Go on where the log begins, after somebody deleted what was to be read."""
        self._pass(self._offset, first_offset(self.directory), 0)
        return []

    def _pass(
        self, start: int, end: int, events: int, settled: Settled = Settled.QUARANTINED
    ) -> None:
        place = ChunkInFlight(self, start, end, self._number, events)
        place.settle_all(settled)
        if events and start == self.position.offset:
            place.skip(self.position.line)
        self.in_flight.add(place)
        self._offset = end
