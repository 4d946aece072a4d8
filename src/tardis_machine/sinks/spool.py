"""Events of one bus on disk: what memory cannot hold, or everything before it is accepted.

A spool is a log (`buses.files.log`) read by the process that writes it. `cursor.json` says from
which byte on each segment holds unsettled events; a segment without any is removed.
"""

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.buses.files.log import (
    LogError,
    Position,
    count_records,
    open_segment,
    pack_block,
    parse_records,
    payloads_of,
    segment_path,
    segments,
)
from tardis_machine.model.errors import EnvelopeError, SinkError
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.fifo import CONTROL_CASES
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.log_writer import LogWriter, flush, sync_directory
from tardis_machine.sinks.records import RecordPacker, RecordReader
from tardis_machine.sinks.tickets import BackedTicket, Ticket
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

SEGMENT_BYTES = 16 * 1024 * 1024
SEGMENTS_AT_LEAST = 8
"""A full spool drops whole segments, so it must have several."""

CURSOR_FILE = "cursor.json"
OnDurable = Callable[[], None]


class SpoolFullError(SinkError):
    """The spool has reached its size."""


class Read(NamedTuple):
    """Some events that were appended together, taken out to be delivered."""

    events: list[Event]
    ticket: Ticket


class _Part:
    """What is known of one segment."""

    __slots__ = ("in_flight", "since", "size", "start", "unread")

    def __init__(self, since: float) -> None:
        self.since = since
        self.size = 0
        self.start = 0
        """Everything before this byte is settled."""
        self.unread = 0
        self.in_flight: deque[list[int]] = deque()
        """End and (0 or 1) whether settled, of blocks that were read, in their order."""


class Spool:
    """The spool of one bus, over a log that nobody else writes."""

    def __init__(
        self, writer: LogWriter, max_bytes: int, on_lost: Callable[[int], None] = lambda _: None
    ) -> None:
        """Open the spool; `on_lost` is called with the number of events a bad disk took."""
        self._writer = writer
        self._directory = writer.directory
        self._max_bytes = max_bytes
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._packer = RecordPacker(Headers({}), names_series=True)
        self._reader = RecordReader(names_series=True)
        self._parts: dict[int, _Part] = {}
        self._read_at = Position(0, 0)
        self._waiting: deque[tuple[Position, OnDurable]] = deque()
        self._is_cursor_stale = False
        self.events = 0
        """Events on disk that were not read yet."""
        self.bytes = 0
        """Bytes of unsettled events, as stored."""
        self._load()

    @property
    def directory(self) -> Path:
        """Return where it is."""
        return self._directory

    @property
    def oldest_at(self) -> float | None:
        """Return the wall time at which the oldest unread part was begun."""
        return min((part.since for part in self._parts.values() if part.unread), default=None)

    def append(
        self, events: Sequence[Event], on_durable: OnDurable, *, is_read: bool = False
    ) -> Ticket | None:
        """Write events; `on_durable` is called once they are flushed to disk.

        Args:
            events: to be written together.
            on_durable: called by `sync`.
            is_read: the caller also keeps them in memory; nothing unread may be before them.

        Returns:
            With `is_read`, the ticket on which the caller settles them.

        Raises:
            SpoolFullError: there is no room.
            OSError: the disk failed; nothing was written.
        """
        payload = self._packer.pack(events)
        with self._lock:
            if self.bytes + len(payload) > self._max_bytes:
                raise SpoolFullError(f"The spool {self._directory} is full.")
            end = self._writer.append(payload)
            part = self._parts.get(end.segment) or self._add_part(end.segment)
            self.bytes += end.byte - part.size
            part.size = end.byte
            self._waiting.append((end, on_durable))
            if is_read:
                self._read_at = end
                return self._hand_out(end, len(events))
            part.unread += len(events)
            self.events += len(events)
        return None

    def sync(self) -> None:
        """Flush to disk what was appended, note the cursor, and tell who waits for it."""
        flush(self._writer, self._lock)
        self._note_cursor()
        with self._lock:
            durable, due = self._writer.durable_end, []
            while self._waiting and self._waiting[0][0] <= durable:
                due.append(self._waiting.popleft()[1])
        for on_durable in due:
            on_durable()

    def read(self, max_events: int) -> list[Read]:
        """Take the oldest unread events, at least so many if there are, in whole blocks."""
        reads: list[Read] = []
        count = 0
        with self._lock:
            while self.events and count < max_events:
                for read in self._read_part(max_events - count):
                    reads.append(read)
                    count += len(read.events)
        return reads

    def drop_oldest(self) -> Counter[PayloadCase]:
        """Drop the oldest segment that was not begun to be read, except control payloads."""
        with self._lock:
            numbers = sorted(self._parts)
            victim = next((each for each in numbers if each > self._read_at.segment), None)
            if victim is None or victim == self._writer.end.segment:
                return Counter()
            return self._drop(victim)

    def put_first(self, events: Sequence[Event]) -> None:
        """Write events before all others, and flush them; used once, when the process ends."""
        with self._lock:
            number = min(self._parts, default=self._writer.end.segment + 1) - 1
            self._write_segment(number, events)
            self._writer.number_after(number)

    def close(self) -> None:
        """Flush everything, remove what is settled, and let another process have the spool."""
        self.sync()
        with self._lock:
            self._writer.close()
            for number in list(self._parts):
                self._remove_if_settled(number, is_closing=True)
            self._is_cursor_stale = True
        self._note_cursor()

    def _load(self) -> None:
        """Find what an earlier process left."""
        starts = read_cursor(self._directory)
        for segment in segments(self._directory):
            part = self._add_part(segment.number)
            part.since = segment.path.stat().st_mtime
            part.start = part.size = starts.get(segment.number, 0)
            with segment.path.open("rb") as file:
                for _, end, payload in payloads_of(file, part.start):
                    part.unread += count_records(payload)
                    part.size = end
            self.events += part.unread
            self.bytes += part.size - part.start
            if part.unread == 0:
                self._remove(segment.number)
        first = min(self._parts, default=0)
        self._read_at = Position(first, self._parts[first].start if first in self._parts else 0)

    def _add_part(self, number: int) -> _Part:
        part = self._parts[number] = _Part(time.time())
        return part

    def _read_part(self, max_events: int) -> Iterable[Read]:
        """Read on in one segment."""
        number = min(each for each, part in self._parts.items() if part.unread)
        part = self._parts[number]
        start = self._read_at.byte if number == self._read_at.segment else part.start
        count = 0
        try:
            with open_segment(self._directory, number) as file:
                for _, end, payload in payloads_of(file, start, part.size):
                    events = self._reader.events(list(parse_records(payload)))
                    self._read_at = Position(number, end)
                    part.unread -= len(events)
                    self.events -= len(events)
                    yield Read(events, self._hand_out(self._read_at, len(events)))
                    count += len(events)
                    if count >= max_events:
                        return
        except (LogError, EnvelopeError, OSError) as error:
            log.error("spool segment corrupt or unreadable", segment=number, error=str(error))
        if part.unread:
            self._on_lost(part.unread)
            self.events -= part.unread
            part.unread = 0
            self._remove_if_settled(number)

    def _hand_out(self, end: Position, count: int) -> Ticket:
        block = [end.byte, 0]
        self._parts[end.segment].in_flight.append(block)
        ticket = BackedTicket(partial(self._settle, end.segment, block), count)
        ticket.complete()
        return ticket

    def _settle(self, number: int, block: list[int]) -> None:
        """Move the start of a segment behind its settled blocks."""
        with self._lock:
            part = self._parts[number]
            block[1] = 1
            while part.in_flight and part.in_flight[0][1]:
                end = part.in_flight.popleft()[0]
                self.bytes -= end - part.start
                part.start = end
            self._is_cursor_stale = True
            self._remove_if_settled(number)

    def _remove_if_settled(self, number: int, *, is_closing: bool = False) -> None:
        part = self._parts[number]
        is_written = is_closing or number != self._writer.end.segment
        if is_written and not part.unread and not part.in_flight:
            self._remove(number)

    def _remove(self, number: int) -> None:
        part = self._parts.pop(number)
        self.bytes -= part.size - part.start
        segment_path(self._directory, number, is_closed=True).unlink(missing_ok=True)
        segment_path(self._directory, number, is_closed=False).unlink(missing_ok=True)

    def _drop(self, number: int) -> Counter[PayloadCase]:
        part = self._parts[number]
        dropped: Counter[PayloadCase] = Counter()
        kept: list[Event] = []
        with open_segment(self._directory, number) as file:
            for _, _, payload in payloads_of(file, part.start, part.size):
                for event in self._reader.events(list(parse_records(payload))):
                    if event.series.case in CONTROL_CASES:
                        kept.append(event)
                    else:
                        dropped[event.series.case] += 1
        self.events -= part.unread
        self._remove(number)
        if kept:
            self._write_segment(number, kept)
        return dropped

    def _write_segment(self, number: int, events: Sequence[Event]) -> None:
        """Write a whole closed segment at once."""
        block = pack_block(self._packer.pack(events))
        path = segment_path(self._directory, number, is_closed=True)
        draft = path.with_suffix(".draft")
        with draft.open("wb") as file:
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_directory(self._directory)
        part = self._add_part(number)
        part.size = len(block)
        part.unread = len(events)
        self.events += len(events)
        self.bytes += len(block)

    def _note_cursor(self) -> None:
        with self._lock:
            if not self._is_cursor_stale:
                return
            self._is_cursor_stale = False
            starts = {number: part.start for number, part in self._parts.items() if part.start}
        write_cursor(self._directory, starts)


def read_cursor(directory: Path) -> dict[int, int]:
    """Return from which byte on segments are unsettled, where that is not their first."""
    try:
        noted = (directory / CURSOR_FILE).read_bytes()
        return msgspec.json.decode(noted, type=dict[int, int])
    except (FileNotFoundError, msgspec.DecodeError):
        # Without it some events are delivered twice, which their ids show.
        return {}


def write_cursor(directory: Path, starts: dict[int, int]) -> None:
    """Replace the cursor; an older one after a crash only repeats some events."""
    draft = directory / f"{CURSOR_FILE}.draft"
    draft.write_bytes(msgspec.json.encode(starts))
    draft.rename(directory / CURSOR_FILE)
