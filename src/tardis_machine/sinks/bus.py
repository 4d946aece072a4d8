"""One bus with everything it needs: routes, outbox, spool, dead letters, thread and counts."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.envelope import Envelope
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.model.time import Clock
from tardis_machine.sinks.addressing import address
from tardis_machine.sinks.backoff import Backoff
from tardis_machine.sinks.base import Event, Sink
from tardis_machine.sinks.courier import Courier
from tardis_machine.sinks.dead_letters import DeadLetters
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.lanes import Lanes, key_of_event
from tardis_machine.sinks.meter import Meter, count_series
from tardis_machine.sinks.outbox import Outbox
from tardis_machine.sinks.reporter import Reporter
from tardis_machine.sinks.settling import DeadLetterOffice, Settler
from tardis_machine.sinks.shelf import Shelf
from tardis_machine.sinks.spool import Spool
from tardis_machine.sinks.spool_dirs import open_shelf, open_spool
from tardis_machine.sinks.status import BusState, BusStatus
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.metrics import EventBusMetrics

log = get_logger(__name__)

LAG_SECONDS = 2.0
SHELF_SHARE = 4
"""One part in so many of the spool is kept for keys in trouble."""

MIN_SYNC_SECONDS = 0.005
"""How soon a spool is flushed that is to be flushed each time."""


class Syncer(threading.Thread):
    """Flushes spool and shelf to disk at intervals, and closes them at the end."""

    def __init__(self, stores: Sequence[Spool | Shelf], interval_seconds: float) -> None:
        super().__init__(name="spool-sync", daemon=True)
        self._stores = stores
        self._interval = max(interval_seconds, MIN_SYNC_SECONDS)
        self._ended = threading.Event()

    def run(self) -> None:
        """Flush until stopped."""
        while self._stores and not self._ended.wait(self._interval):
            for store in self._stores:
                self._attempt(store.sync)

    def stop(self) -> None:
        """Flush and close everything; once."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self.ident is not None:
            self.join()
        # The spool last: it holds the lock of the directory.
        for store in reversed(self._stores):
            self._attempt(store.close)

    @staticmethod
    def _attempt(flush: Callable[[], None]) -> None:
        try:
            flush()
        except OSError as error:
            log.error("spool fsync failed", error=str(error))


class Bus:
    """Publishes to one bus.

    Args:
        settings: of the bus.
        delivery: how events are delivered to it.
        sink: the bus itself.
        directory: where its spool and dead letters are.
        metrics: where counts go.
        clock: what time it is.
    """

    def __init__(
        self,
        settings: BusSettings,
        delivery: EventBusSettings,
        sink: Sink,
        directory: Path,
        metrics: EventBusMetrics,
        clock: Clock,
    ) -> None:
        self.settings = settings
        self.delivery = delivery
        self.meter = Meter(settings.bus, metrics)
        self._router = settings.router()
        self._reporter = Reporter(self.meter, delivery.log_interval_ms / 1000)
        self._key_of = key_of_event(ordering=delivery.ordering, keeps_order=sink.keeps_order)
        self.spool = self._open_spool(directory)
        self._shelf = self._open_shelf(self.spool) if self.spool else None
        self.outbox, self._courier = self._assemble(sink, directory, clock)
        stores = [store for store in (self.spool, self._shelf) if store is not None]
        self._syncer = Syncer(stores, delivery.fsync_ms / 1000)

    @property
    def name(self) -> str:
        """Return the name of the bus."""
        return self.settings.bus

    @property
    def cases(self) -> frozenset[PayloadCase]:
        """Return the payload cases the bus takes."""
        return self.settings.cases

    def start(self) -> None:
        """Begin to deliver."""
        self._courier.start()
        self._syncer.start()

    def wait_until_open(self, seconds: float) -> bool:
        """Wait until the bus was reached."""
        return self._courier.opened.wait(seconds)

    def address(
        self,
        envelopes: Sequence[Envelope],
        event_ids: Sequence[str],
        delivery_ids: Sequence[str],
        now: float,
    ) -> list[Event]:
        """Return the events of envelopes that go to this bus, with their routes."""
        events = address(envelopes, self._router, event_ids, delivery_ids, now)
        self.meter.offered(count_series(events))
        self.meter.enqueued(len(events))
        return events

    def readdress(self, events: Sequence[Event]) -> list[Event]:
        """Return copies of events with the routes this bus has for them."""
        pairs = [(event, self._router.route(event.series)) for event in events]
        return [
            msgspec.structs.replace(event, route=route)
            for event, route in pairs
            if route is not None
        ]

    @property
    def is_lagging(self) -> bool:
        """Say whether events have waited long enough to call the bus slow."""
        return self.outbox.oldest_seconds > LAG_SECONDS

    def status(self) -> BusStatus:
        """Say how the bus is doing, and set its gauges."""
        outbox, meter, reporter = self.outbox, self.meter, self._reporter
        oldest_seconds = outbox.oldest_seconds
        self._set_gauges(oldest_seconds)
        ack_at = meter.last_ack_at
        return BusStatus(
            state=reporter.state,
            state_seconds=time.monotonic() - reporter.state_since,
            queued=outbox.queued,
            spooled=outbox.spooled,
            oldest_seconds=round(oldest_seconds, 3),
            totals=meter.totals,
            last_ack_age_ms=None if ack_at is None else int((time.time() - ack_at) * 1000),
            last_error=reporter.last_error,
        )

    def drain(self) -> None:
        """Begin to deliver without pauses; more events may still come."""
        self._courier.drain()

    def finish(self) -> None:
        """Say that no more events will come: the thread ends when all are delivered."""
        self._courier.finish()

    def wait_until_drained(self) -> None:
        """Wait until the thread has ended, because nothing was left or it was stopped."""
        self._courier.join()

    def stop(self, seconds: float) -> None:
        """End the thread within this time and put what is left on disk, or count it as lost."""
        self._courier.abandon()
        if self._courier.ident is not None:
            self._courier.join(seconds)
        self.outbox.persist(self._courier.begun)
        self._syncer.stop()
        self._reporter.change(BusState.CLOSED)

    def _open_spool(self, directory: Path) -> Spool | None:
        if not self.delivery.has_spool:
            return None
        on_lost = partial(self.meter.lost, Reason.SPOOL_UNREADABLE)
        try:
            max_bytes = self.delivery.spool_max_bytes - self._shelf_bytes
            spool = open_spool(directory / "spool", max_bytes, on_lost)
        except OSError as error:
            # Publishing goes on in memory, and what that cannot hold is dropped by policy.
            log.error(
                "spool unavailable; publishing from memory only", bus=self.name, error=str(error)
            )
            self._reporter.fail("spool", str(error))
            return None
        if spool.events:
            log.info(
                "recovered undelivered events from the spool", bus=self.name, events=spool.events
            )
            self.meter.enqueued(spool.events)
        return spool

    @property
    def _shelf_bytes(self) -> int:
        return self.delivery.spool_max_bytes // SHELF_SHARE

    def _open_shelf(self, spool: Spool) -> Shelf | None:
        on_lost = partial(self.meter.lost, Reason.SPOOL_UNREADABLE)
        try:
            return open_shelf(spool, self._shelf_bytes, on_lost)
        except OSError as error:
            log.error(
                "store of parked events unavailable; they stay in memory",
                bus=self.name,
                error=str(error),
            )
            return None

    def _assemble(self, sink: Sink, directory: Path, clock: Clock) -> tuple[Outbox, Courier]:
        delivery, meter, reporter = self.delivery, self.meter, self._reporter
        key_of = self._key_of
        pauses = partial(Backoff, delivery.retry_initial_ms / 1000, delivery.retry_max_ms / 1000)
        outbox = Outbox(delivery, Lanes(key_of, pauses), meter, self.spool, self._shelf)
        letters = DeadLetters(
            directory,
            self.name,
            delivery.dead_letter_max_bytes,
            Headers(self.settings.static_headers),
            clock,
            self.meter.lost_letters,
        )
        target = self.settings.dead_letter_target
        office = DeadLetterOffice(delivery, letters, target, sink.send, meter)
        settler = Settler(outbox, delivery, key_of, office, meter, reporter)
        return outbox, Courier(sink, outbox, settler, delivery, meter, reporter)

    def _set_gauges(self, oldest_seconds: float) -> None:
        spool, outbox = self.spool, self.outbox
        spool_oldest_at = spool.oldest_at if spool else None
        self.meter.gauges(
            {
                "queue_events": outbox.queued,
                "queue_bytes": outbox.queued_bytes,
                "queue_oldest": oldest_seconds,
                "lanes": outbox.lanes,
                "in_flight": self._courier.is_sending,
                "spool_events": outbox.spooled,
                "spool_bytes": spool.bytes if spool else 0,
                "spool_oldest": 0.0 if spool_oldest_at is None else time.time() - spool_oldest_at,
            }
        )
