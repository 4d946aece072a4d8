"""Accepted events of one bus until they are settled: bounded memory, then disk, then loss by rule.

One thread offers, one (`sinks.courier`) takes batches. The usual way of an event is cheap: lists go
in, slices come out. Only events of keys in trouble are looked at one by one (`sinks.lanes`).

Order: memory is older than the spool. While the spool holds unread events, new ones go behind them,
and memory is filled from the spool as it empties.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.backlog import Backlog
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.fifo import (
    CONTROL_CASES,
    OVERHEAD_BYTES,
    Batch,
    Entry,
    bytes_of,
    cases_of,
)
from tardis_machine.sinks.lanes import Lanes
from tardis_machine.sinks.meter import Meter
from tardis_machine.sinks.relief import Relief
from tardis_machine.sinks.shelf import Shelf
from tardis_machine.sinks.spool import Spool, SpoolFullError
from tardis_machine.sinks.tickets import Ticket
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

REFILL_EVENTS = 10_000
"""Events taken from the spool at once."""


class Outbox:
    """The events of one bus.

    Args:
        settings: bounds and policies.
        lanes: where failed events wait.
        meter: what counts.
        spool: where events go that memory cannot hold; None: nowhere.
        shelf: where events go whose keys are in trouble for long; None: nowhere.
    """

    def __init__(
        self,
        settings: EventBusSettings,
        lanes: Lanes,
        meter: Meter,
        spool: Spool | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        self._settings = settings
        self._is_written_ahead = spool is not None and settings.durability == "spool"
        self._backlog = Backlog(lanes, settings.queue_max_messages, settings.queue_max_bytes)
        self._relief = Relief(self._backlog, shelf) if shelf else None
        self._lanes = lanes
        self._meter = meter
        self._spool = spool
        self._changed = threading.Condition()
        self._is_draining = False
        self._left_on_disk = 0
        self.on_room: Callable[[], None] = _nobody_waits
        """Called, from the thread that delivers, when events were settled."""
        self.is_pressed = False
        """Somebody upstream keeps too much for us: memory counts as full."""
        self.disk_error: str | None = None
        """Why the spool cannot be written to."""

    @property
    def queued(self) -> int:
        """Return how many events are in memory, those being sent included."""
        return self._backlog.events

    @property
    def queued_bytes(self) -> int:
        """Return how many bytes are in memory."""
        return self._backlog.bytes

    @property
    def spooled(self) -> int:
        """Return how many events are on disk only."""
        shelved = self._relief.events if self._relief else 0
        return self._left_on_disk + self._unread + shelved

    @property
    def _unread(self) -> int:
        """Return how many events are on disk behind those in memory."""
        return self._spool.events if self._spool else 0

    @property
    def is_full(self) -> bool:
        """Say whether memory takes no more events."""
        return self.is_pressed or self._backlog.is_full

    @property
    def is_empty(self) -> bool:
        """Say whether nothing is left to deliver, in memory or on disk."""
        return self.queued == 0 and self.spooled == 0

    @property
    def oldest_seconds(self) -> float:
        """Return how long the oldest event has waited in memory."""
        with self._changed:
            return self._oldest_seconds()

    @property
    def lanes(self) -> int:
        """Return how many keys are in trouble."""
        return len(self._lanes)

    @property
    def misdirected(self) -> int:
        """Return how many keys wait for their destination to be put right."""
        with self._changed:
            return self._lanes.misdirected

    def offer(self, events: list[Event], ticket: Ticket, *, may_spill: bool = True) -> int:
        """Accept events, the first ones first, and return how many there was room for.

        Args:
            events: of one producer, in their order.
            ticket: on which they are settled; it must expect them already.
            may_spill: put what memory cannot hold on disk, where settings say so.
        """
        with self._changed:
            if self._is_written_ahead:
                return self._write_ahead(events, ticket, may_spill=may_spill)
            may_spill = may_spill and self._settings.overflow == "spill"
            count = self._room_for(events)
            if count:
                self._put(events if count == len(events) else events[:count], ticket)
            if count < len(events) and may_spill and self._spill(events[count:], ticket):
                return len(events)
        return count

    def force(self, events: list[Event], ticket: Ticket) -> None:
        """Accept events although there is no room: something is lost, by the overflow policy."""
        with self._changed:
            if self._force_to_disk(events, ticket):
                return
            kept = self._force_to_memory(self._worth_keeping(events), ticket)
            lost = [(event, ticket) for event in events if id(event) not in kept]
        self._lose(lost, Reason.OVERFLOW)

    def next_batch(
        self, max_events: int, max_bytes: int, delay_seconds: float, timeout_seconds: float
    ) -> Batch | None:
        """Wait for events to send; None when there is nothing for now."""
        deadline = time.monotonic() + timeout_seconds
        with self._changed:
            while True:
                self._refill(max_events)
                now = time.monotonic()
                if self._relief:
                    self._relief.before_cut(now)
                delay = 0.0 if self._is_draining else delay_seconds
                pause = self._backlog.pause(now, max_events, max_bytes, delay)
                if pause <= 0:
                    batch = self._backlog.cut(now, max_events, max_bytes)
                    if self._relief and (lost := self._relief.after_cut()):
                        self._lose(lost, Reason.SPOOL_FULL)
                    if batch.events:
                        return batch
                    continue
                pause = min(pause, deadline - now)
                if pause <= 0:
                    return None
                self._changed.wait(pause)

    def release(self, batch: Batch) -> None:
        """Settle delivered events and make room."""
        size_bytes = bytes_of(batch.events)
        self._meter.published(batch.events, size_bytes - OVERHEAD_BYTES * len(batch.events))
        with self._changed:
            self._backlog.forget(len(batch.events), size_bytes)
            if self._lanes:
                self._lanes.succeed(batch.events)
        for ticket, count in batch.shares:
            ticket.settle(count)
        self.on_room()

    def give_up(self, entries: Sequence[Entry]) -> None:
        """Settle events that became dead letters, and make room."""
        with self._changed:
            self._backlog.forget(len(entries), bytes_of(event for event, _ in entries))
            self._lanes.discard_empty()
        for _, ticket in entries:
            ticket.settle(1)
        self.on_room()

    def park(
        self, entries: Iterable[Entry], at_least: float = 0.0, *, is_misdirected: bool = False
    ) -> None:
        """Hold up failed events of one key, and all later ones of it."""
        with self._changed:
            self._lanes.park(entries, time.monotonic(), at_least, is_misdirected=is_misdirected)

    def drain(self) -> None:
        """Send what is left at once: no batch waits for more, no lane for its pause."""
        with self._changed:
            self._is_draining = True
            self._lanes.wake()
            self._changed.notify_all()

    def persist(self, begun: Sequence[Entry]) -> None:
        """Put what is left in memory on disk, or count it as lost; the end of the outbox.

        Args:
            begun: events that a sink was asked to send, older than all others of their keys.
        """
        with self._changed:
            self._backlog.forget(len(begun), bytes_of(event for event, _ in begun))
            left = [*begun, *self._backlog.drain()]
            # Those on disk already stay there, because nobody settles their tickets.
            unbacked = [entry for entry in left if not entry[1].is_backed]
            self._left_on_disk = len(left) - len(unbacked)
            is_kept = self._persist_first([event for event, _ in unbacked])
        if is_kept:
            for _, ticket in unbacked:
                ticket.settle(1)
        else:
            self._lose(unbacked, Reason.SHUTDOWN)

    def _oldest_seconds(self) -> float:
        oldest_at = self._backlog.oldest_at
        return 0.0 if oldest_at is None else time.monotonic() - oldest_at

    def _room_for(self, events: Sequence[Event]) -> int:
        """Return how many events memory can take; too old a queue counts as a full one."""
        if self._unread or self.is_pressed:
            return 0
        limit_ms = self._settings.queue_max_age_ms if self._settings.overflow == "spill" else 0
        if limit_ms and self._oldest_seconds() * 1000 > limit_ms:
            return 0
        return self._backlog.room_for(events)

    def _put(self, events: list[Event], ticket: Ticket) -> None:
        self._backlog.put(events, ticket)
        self._changed.notify()

    def _write_ahead(self, events: list[Event], ticket: Ticket, *, may_spill: bool) -> int:
        """Write events to disk before they count as accepted; keep them in memory if it can."""
        is_direct = self._room_for(events) == len(events)
        if not (is_direct or may_spill):
            return 0
        settle = partial(ticket.settle, len(events))
        if not self._append(events, settle, is_read=is_direct):
            # A broken disk: what memory holds is better than nothing, and the log is loud.
            if is_direct and self.disk_error:
                self._put(events, ticket)
                return len(events)
            return 0
        return len(events)

    def _spill(self, events: list[Event], ticket: Ticket) -> bool:
        return self._append(events, partial(ticket.settle, len(events)))

    def _append(
        self, events: list[Event], on_durable: Callable[[], None], *, is_read: bool = False
    ) -> bool:
        """Write events to the spool, if it is there, has room and works."""
        if self._spool is None:
            return False
        try:
            block = self._spool.append(events, on_durable, is_read=is_read)
        except SpoolFullError:
            return False
        except OSError as error:
            self.disk_error = error.strerror or str(error)
            return False
        self.disk_error = None
        if block is not None:
            self._backlog.put(events, block)
        self._changed.notify()
        return True

    def _force_to_disk(self, events: list[Event], ticket: Ticket) -> bool:
        """Drop the oldest part of the spool for events that must go there."""
        if self._spool is None or self._settings.overflow != "spill":
            return False
        while not self._spill(events, ticket):
            dropped = {} if self.disk_error else self._spool.drop_oldest()
            if not dropped:
                return False
            self._meter.dropped(Reason.SPOOL_FULL, dropped)
        return True

    def _worth_keeping(self, events: list[Event]) -> list[Event]:
        """Return the events for which older ones are dropped."""
        if self._unread:
            # Memory must not overtake the disk.
            return []
        if self._settings.overflow in ("spill", "drop-oldest"):
            return events
        return [event for event in events if event.series.case in CONTROL_CASES]

    def _force_to_memory(self, events: list[Event], ticket: Ticket) -> set[int]:
        """Drop the oldest events in memory for these; return which of these fit."""
        if not events:
            return set()
        self._lose(self._backlog.make_room(events), Reason.OVERFLOW)
        kept = events[: self._backlog.room_for(events)]
        if kept:
            self._put(kept, ticket)
        return {id(event) for event in kept}

    def _lose(self, entries: Sequence[Entry], reason: Reason) -> None:
        self._meter.dropped(reason, cases_of(event for event, _ in entries))
        for _, ticket in entries:
            ticket.settle(1)

    def _refill(self, max_events: int) -> None:
        """Take the oldest events from disk when memory has room and little to send."""
        spool = self._spool
        if spool is None or not spool.events or self._backlog.waiting >= max_events:
            return
        if not self._backlog.is_full:
            for read in spool.read(REFILL_EVENTS):
                self._backlog.put(read.events, read.ticket)

    def _persist_first(self, events: list[Event]) -> bool:
        if not events:
            return True
        if self._spool is None:
            return False
        try:
            self._spool.put_first(events)
        except OSError as error:
            log.error("spool write failed", bus=self._meter.bus, error=error.strerror)
            return False
        return True


def _nobody_waits() -> None:
    """Do nothing when events are settled."""
