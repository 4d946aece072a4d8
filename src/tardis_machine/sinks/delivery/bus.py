"""One bus with everything it needs: routes, logs, parked events, dead letters, thread, counts."""

import time
from collections.abc import Collection
from functools import partial
from pathlib import Path

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.model.time import Clock
from tardis_machine.sinks.base import Sink
from tardis_machine.sinks.dead_letters.files import DeadLetters
from tardis_machine.sinks.dead_letters.office import DeadLetterOffice
from tardis_machine.sinks.delivery.backoff import Backoff
from tardis_machine.sinks.delivery.encoding import LogEncoding
from tardis_machine.sinks.delivery.feeds import Feeds
from tardis_machine.sinks.delivery.overflow import Overflow
from tardis_machine.sinks.delivery.retries import Retries, key_of_event
from tardis_machine.sinks.delivery.sender import Sender
from tardis_machine.sinks.delivery.settling import Settler
from tardis_machine.sinks.delivery.window import MAX_EVENTS, Window
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.reporting.meter import Meter
from tardis_machine.sinks.reporting.reporter import Reporter
from tardis_machine.sinks.reporting.status import BusState, BusStatus, Totals
from tardis_machine.sinks.storage.directory import LogDirectory, LogReader
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.writer import Syncer
from tardis_machine.telemetry.event_bus_metrics import EventBusMetrics

CALL_SECONDS, CALL_TIMEOUTS = 600.0, 10
"""A call of a client that takes longer than this and so many times its timeouts never returns."""


class Bus:
    """Publishes to one bus.

    Args:
        settings: of the bus.
        delivery: how events are delivered to it.
        sink: the bus itself.
        root: where logs, dead letters and quarantine are.
        metrics: where counts go.
        clock: what time it is.
        window_events: how many events are read ahead.
        call_seconds: how long its client may take for one call, beside its timeouts.
    """

    def __init__(
        self,
        settings: BusSettings,
        delivery: EventBusSettings,
        sink: Sink,
        root: Path,
        metrics: EventBusMetrics,
        clock: Clock,
        window_events: int = MAX_EVENTS,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self.settings = settings
        self.delivery = delivery
        self.reader = LogReader(settings.bus, settings.endpoint)
        self.meter = Meter(settings.bus, metrics)
        self._reporter = Reporter(self.meter, delivery.log_interval_ms / 1000)
        self._make_backoff = partial(
            Backoff, delivery.retry_initial_ms / 1000, delivery.retry_max_ms / 1000
        )
        self._feeds = Feeds(
            self.reader, settings.router(), self._make_backoff, clock, root, delivery.fsync
        )
        self._syncer = Syncer(self._sync_parked, delivery.fsync_ms / 1000, self._report_sync)
        self._overflow, self._sender = self._assemble(sink, root, clock, window_events)
        self._call_seconds = call_seconds + CALL_TIMEOUTS * settings.timeout_seconds
        self._counted = self._not_written = 0
        """What metrics have counted so far of accepted and of never written events."""

    @property
    def name(self) -> str:
        """Return the name of the bus."""
        return self.settings.bus

    @property
    def cases(self) -> frozenset[PayloadCase]:
        """Return the payload cases the bus takes."""
        return self.settings.cases

    @property
    def lanes(self) -> int:
        """Return how many keys are in trouble."""
        return self._sender.lanes

    @property
    def lost(self) -> int:
        """Return how many accepted events were lost."""
        with self._sender.lock:
            return self._feeds.dropped + self.meter.removed_letters

    @property
    def is_stuck(self) -> bool:
        """Say whether its client does not come back from a call, whatever its timeouts say."""
        return self._sender.call_seconds > self._call_seconds

    @property
    def is_empty(self) -> bool:
        """Say whether everything that was written is settled."""
        with self._sender.lock:
            return self._feeds.is_drained

    def start(self) -> None:
        """Begin to deliver."""
        # Metrics count from here on, what waits included.
        with self._sender.lock:
            self._counted = self._totals(0).accepted
            self._not_written = sum(feed.not_written for feed in self._feeds)
        self._sender.start()
        if self.delivery.fsync == "interval":
            self._syncer.start()

    def wait_until_open(self, seconds: float) -> bool:
        """Wait until the bus was reached."""
        return self._sender.opened.wait(seconds)

    def read(
        self, log: LogDirectory, encoding: LogEncoding, *, is_own: bool, comes_first: bool = False
    ) -> bool:
        """Read a log too, if it is for this bus; False while another process reads it."""
        with self._sender.lock:
            if self._feeds.has(log.log_id) or self.reader not in log.owner.readers:
                return True
            try:
                return self._feeds.add(log, encoding, is_own=is_own, comes_first=comes_first)
            except FileNotFoundError:
                # Whoever read it to its end has removed it.
                return True

    def keep_awaiting(self, log_ids: Collection[str]) -> None:
        """Wait for the readers of ended writers' logs only while these are there."""
        with self._sender.lock:
            self._feeds.keep_awaiting(log_ids)

    def release_drained(self) -> None:
        """Let go of logs with nothing left whose writers have ended."""
        with self._sender.lock:
            self._feeds.release_drained()

    def ring(self) -> None:
        """Say that something was written."""
        self._sender.ring()

    def step(self) -> None:
        """Keep the bound, then connect or deliver one batch, where no thread does."""
        with self._sender.lock:
            self._overflow.keep_bound()
        self._sender.step()

    def status(self) -> BusStatus:
        """Say how the bus is doing, and set its gauges."""
        with self._sender.lock:
            waiting = sum(feed.waiting for feed in self._feeds)
            parked = sum(feed.parked_waiting for feed in self._feeds)
            oldest_at = min(
                (at for feed in self._feeds if (at := feed.oldest_at) is not None), default=None
            )
            totals = self._totals(waiting + parked)
            lanes = self._sender.lanes
            not_written = sum(feed.not_written for feed in self._feeds)
            backlog_bytes = self._overflow.backlog_bytes
        oldest_seconds = 0.0 if oldest_at is None else max(0.0, time.time() - oldest_at)
        self._count(totals.accepted, not_written)
        self.meter.gauges(
            {
                "queue_events": waiting,
                "queue_bytes": backlog_bytes,
                "queue_oldest": oldest_seconds,
                "lanes": lanes,
                "in_flight": self._sender.in_flight > 0,
                "parked_events": parked,
            }
        )
        ack_at, reporter = self.meter.last_ack_at, self._reporter
        return BusStatus(
            state=reporter.state,
            state_seconds=time.monotonic() - reporter.state_since,
            queued=waiting,
            parked=parked,
            oldest_seconds=round(oldest_seconds, 3),
            totals=totals,
            last_ack_age_ms=None if ack_at is None else int((time.time() - ack_at) * 1000),
            last_error=reporter.last_error,
        )

    def drain(self) -> None:
        """Begin to deliver without pauses; more events may still come."""
        self._sender.drain()

    def finish(self) -> None:
        """Say that nothing more will be written: the thread ends when all is delivered."""
        self._sender.finish()

    def wait_until_drained(self) -> None:
        """Wait until the thread has ended, because nothing was left or it was stopped."""
        self._sender.join()

    def stop(self, seconds: float) -> None:
        """End the thread within this time; what is left stays in the log."""
        self._syncer.stop()
        self._sender.abandon()
        if self._sender.ident is not None:
            self._sender.join(seconds)
        self._reporter.change(BusState.CLOSED)

    def close(self) -> None:
        """Close all logs, and let another process read them; the thread has ended."""
        self._feeds.release_drained()
        self._feeds.close()

    def _sync_parked(self) -> None:
        """Flush parked events to disk, without stopping the thread that delivers."""
        with self._sender.lock:
            destinations = [parked for feed in self._feeds for parked in feed.parked]
        for parked in destinations:
            parked.sync()

    def _report_sync(self, error: OSError) -> None:
        self._reporter.fail("parking", f"not flushed to disk: {error.strerror}")

    def _count(self, accepted: int, not_written: int) -> None:
        """Bring metrics up to what writers say."""
        if accepted > self._counted:
            self.meter.enqueued(accepted - self._counted)
            self._counted = accepted
        if not_written > self._not_written:
            self.meter.lost(Reason.NOT_WRITTEN, not_written - self._not_written)
            self._not_written = not_written

    def _totals(self, waiting: int) -> Totals:
        counts, live = self._feeds.totals(), self.meter.totals
        removed = self.meter.removed_letters
        settled = Totals(
            published=counts[Settled.DELIVERED],
            filtered=counts[Settled.FILTERED],
            dead=counts[Settled.DEAD] - removed,
            dropped=self._feeds.dropped + removed,
            quarantined=counts[Settled.QUARANTINED],
            retries=live.retries,
            redelivered=live.redelivered,
            duplicates=live.duplicates,
        )
        settled.accepted = (
            settled.published
            + settled.filtered
            + settled.dead
            + settled.dropped
            + settled.quarantined
            + waiting
        )
        return settled

    def _assemble(
        self, sink: Sink, root: Path, clock: Clock, window_events: int
    ) -> tuple[Overflow, Sender]:
        delivery, meter, reporter = self.delivery, self.meter, self._reporter
        key_of = key_of_event(ordering=delivery.ordering, keeps_order=sink.keeps_order)
        window = Window(Retries(key_of, self._make_backoff), window_events)
        letters = DeadLetters(
            (delivery.spool_dir or root) / self.name,
            self.name,
            delivery.dead_letter_max_bytes,
            Headers(self.settings.static_headers),
            clock,
            self.meter.lost_letters,
        )
        target = self.settings.dead_letter_target
        office = DeadLetterOffice(delivery, letters, target, sink.send, meter)
        settler = Settler(window, self._feeds, delivery, key_of, office, meter, reporter)
        overflow = Overflow(delivery, self._feeds, window, settler, meter)
        sender = Sender(sink, self._feeds, window, settler, overflow, delivery, meter, reporter)
        return overflow, sender
