"""The thread of one bus: connects, reads, sends, settles, moves positions, and starts over."""

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError
from tardis_machine.sinks.base import Event, Sink
from tardis_machine.sinks.delivery.backoff import Backoff
from tardis_machine.sinks.delivery.feeds import Feeds
from tardis_machine.sinks.delivery.overflow import Overflow
from tardis_machine.sinks.delivery.parking.destination import ParkedDestination
from tardis_machine.sinks.delivery.settling import Aftermath, Settler
from tardis_machine.sinks.delivery.window import Window
from tardis_machine.sinks.reporting.meter import Meter, count_series
from tardis_machine.sinks.reporting.reporter import Reporter
from tardis_machine.sinks.reporting.status import BusState
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

POLL_SECONDS = 0.02
"""How often the logs are looked at when nobody says that something was written."""
IDLE_SECONDS = 0.1
BOUND_SECONDS = 0.25
"""How often the size of the backlog is checked."""
PROBE_SHARE = 9
"""How many times as long as a destination in trouble was tried others get, if they have events."""
CLOSE_SECONDS = 2.0
FAILED_EXIT = 70
"""Exit code of the process after an error that no code expects."""


class Sender(threading.Thread):
    """Delivers the events of logs through one sink.

    Whatever it does not expect ends the process: the parent starts it again, and it reads on from
    its positions.

    Args:
        sink: the bus.
        feeds: where events come from.
        window: what was read and is not settled.
        settler: what applies the outcomes.
        overflow: what keeps the backlog within its bound.
        settings: pauses between attempts.
        meter: what counts.
        reporter: what is logged.
    """

    def __init__(
        self,
        sink: Sink,
        feeds: Feeds,
        window: Window,
        settler: Settler,
        overflow: Overflow,
        settings: EventBusSettings,
        meter: Meter,
        reporter: Reporter,
    ) -> None:
        # A hanging client must not keep the process alive.
        super().__init__(name=f"bus-{meter.bus}", daemon=True)
        self._sink = sink
        self._feeds = feeds
        self._window = window
        self._settler = settler
        self._overflow = overflow
        self._meter = meter
        self._reporter = reporter
        self._backoff = Backoff(settings.retry_initial_ms / 1000, settings.retry_max_ms / 1000)
        self._is_open = False
        self._is_refused = False
        """The last attempt to connect failed for a reason that time alone does not heal."""
        self._is_answered = True
        self._bound_at = 0.0
        self._called_at = math.inf
        self._probe_began_at = 0.0
        self._probe_at = 0.0
        """Until then parked events wait for all others."""
        self._bell = threading.Event()
        self._is_draining = False
        self._is_hurried = False
        """Pauses that have begun are to end."""
        self._is_last = False
        self._is_abandoned = False
        self.lock = threading.Lock()
        """Held while feeds change; whoever looks at them from another thread takes it."""
        self.opened = threading.Event()
        """Set once the bus was reached."""
        self.in_flight = 0
        """Events that are with the sink now."""

    @property
    def lanes(self) -> int:
        """Return how many keys are in trouble."""
        return len(self._window.retries)

    @property
    def call_seconds(self) -> float:
        """Return for how long the sink has been at work on one call; negative when on none."""
        return time.monotonic() - self._called_at

    def ring(self) -> None:
        """Say that something was written."""
        self._bell.set()

    def drain(self) -> None:
        """Deliver without pauses from now on, beginning with one attempt at once."""
        self._is_draining = self._is_hurried = True
        self._bell.set()

    def finish(self) -> None:
        """End as soon as everything is delivered; nothing more will be written."""
        self._is_last = True
        self._bell.set()

    def abandon(self) -> None:
        """End after the current call, whatever is left."""
        self._is_abandoned = True
        self._bell.set()

    def run(self) -> None:
        """Deliver until drained or abandoned."""
        try:
            while not self._is_done():
                self.step()
                self._reporter.change(self._state())
                self._reporter.summarize(self._numbers)
            self._close()
        except Exception:
            log.exception("bus thread failed; the publisher process ends", bus=self._meter.bus)
            os._exit(FAILED_EXIT)

    def step(self) -> None:
        """Connect, or deliver one batch."""
        if self._is_hurried:
            self._wake()
        self._keep_bound()
        if self._is_open or self._open():
            self._deliver()

    def _is_done(self) -> bool:
        if self._is_abandoned:
            return True
        if not self._is_last or self._window.events:
            return False
        with self.lock:
            return self._feeds.is_drained

    def _open(self) -> bool:
        """Connect, or wait before the next attempt."""
        try:
            with self._calling():
                self._sink.open()
        except Exception as error:
            if not isinstance(error, SinkError):
                log.exception("sink failed to open", bus=self._meter.bus)
            self._is_refused = isinstance(error, SinkError) and not error.retryable
            self._meter.connected("failed")
            self._reporter.fail("connect", str(error))
            self._reporter.change(self._state())
            self._pause(self._backoff.next(is_parked=self._is_refused))
            return False
        self._meter.connected("ok")
        self._is_refused = False
        self._is_open = True
        self.opened.set()
        return True

    def _deliver(self) -> None:
        parked, events = self._next_batch()
        if not events:
            with self._calling():
                self._sink.idle(0.0)
            return
        self.in_flight = len(events)
        results = self._send(events)
        self.in_flight = 0
        with self.lock:
            if parked is None:
                aftermath = self._settler.settle(events, results)
            else:
                aftermath = self._settler.settle_parked(parked, events, results)
            self._feeds.advance()
        if parked is not None:
            self._end_probe(was_taken=OK in results)
        self._follow(aftermath)

    def _end_probe(self, *, was_taken: bool) -> None:
        """Give the others their share of time, by what the probe cost from its reading on."""
        now = time.monotonic()
        share = 1 if was_taken else PROBE_SHARE
        self._probe_at = now + share * (now - self._probe_began_at)

    def _next_batch(self) -> tuple[ParkedDestination | None, list[Event]]:
        """Wait a little for events to send."""
        max_events = 1 if self._backoff.is_circuit_open else self._sink.max_batch_events
        if again := self._settler.next_again(max_events):
            return None, again
        deadline = time.monotonic() + IDLE_SECONDS
        while True:
            with self.lock:
                parked, events = self._find_batch(max_events)
                if events:
                    return parked, events
                now = time.monotonic()
                pause = min(deadline - now, self._time_to_batch(now, max_events))
            if pause <= 0 and now >= deadline:
                return None, []
            if self._is_abandoned or self._is_hurried:
                return None, []
            self._bell.wait(max(0.0, min(pause, POLL_SECONDS)))
            self._bell.clear()

    def _find_batch(self, max_events: int) -> tuple[ParkedDestination | None, list[Event]]:
        """Take events of the logs or of a parked destination, neither of them always first."""
        try:
            self._fill(max_events)
            now = time.monotonic()
            is_probe = now >= self._probe_at
            if is_probe and (found := self._take_parked(now, max_events))[1]:
                return found
            if batch := self._cut(now, max_events):
                return None, batch
            return (None, []) if is_probe else self._take_parked(now, max_events)
        except OSError as error:
            # A passing lack of files or memory: the log stays as it is.
            self._reporter.fail("log", str(error))
            return None, []

    def _take_parked(
        self, now: float, max_events: int
    ) -> tuple[ParkedDestination | None, list[Event]]:
        self._probe_began_at = now
        parked = self._feeds.due(now)
        if parked is None:
            return None, []
        try:
            events = parked.take(max_events, self._sink.max_batch_bytes)
        except OSError as error:
            self._reporter.fail("parking", str(error))
            parked.fail(0.0)
            return None, []
        if not events:
            # What was left of it is not for this bus any more.
            self._count_left_out()
            self._feeds.advance()
        return parked, events

    def _fill(self, max_events: int) -> None:
        """Read on until there is a batch, or nothing more to read, or no room."""
        self._feeds.pass_first()
        is_moved = False
        while self._window.queued < max_events:
            if self._window.is_full:
                self._relieve()
                if self._window.is_full:
                    break
            events = self._feeds.read()
            if events is None:
                break
            is_moved = True
            if events:
                self._meter.offered(count_series(events))
                self._window.put(events, time.monotonic())
        if is_moved:
            self._count_left_out()
            self._feeds.advance()

    def _count_left_out(self) -> None:
        self._meter.filtered(self._feeds.left_out)
        self._feeds.left_out.clear()

    def _relieve(self) -> None:
        """Park what is stuck while other destinations get through, which need not wait for it."""
        found = self._window.retries.stuck_destinations(self._settler.delivered_at)
        stuck = {name for name in found if not self._settler.waits_for_room(name)}
        if stuck:
            self._settler.park(
                self._window.retries.take(lambda event: event.route.destination in stuck)
            )
            self._feeds.advance()

    def _cut(self, now: float, max_events: int) -> list[Event]:
        max_bytes, delay = self._sink.max_batch_bytes, self._delay_seconds
        if self._window.pause(now, max_events, max_bytes, delay) > 0:
            return []
        batch = self._window.cut(now, max_events, max_bytes)
        if batch and self._feeds.has_parked:
            batch = self._settler.divert(batch)
            self._feeds.advance()
        return batch

    def _time_to_batch(self, now: float, max_events: int) -> float:
        pause = self._window.pause(now, max_events, self._sink.max_batch_bytes, self._delay_seconds)
        due_at = self._feeds.next_due_at
        return min(pause, math.inf if due_at is None else due_at - now)

    @property
    def _delay_seconds(self) -> float:
        return 0.0 if self._is_draining else self._sink.max_batch_delay_seconds

    def _send(self, events: list[Event]) -> list[Result]:
        """Hand events to the sink; whatever it raises means that its client is lost."""
        started = time.monotonic()
        try:
            with self._calling():
                results = list(self._sink.send(events))
        except Exception as error:
            if not isinstance(error, SinkError):
                log.exception("sink failed to send", bus=self._meter.bus)
            results = [Result(Outcome.CLIENT_LOST, Reason.CLIENT_FAILED, str(error))] * len(events)
        self._meter.sent(events, _outcome_of(results), time.monotonic() - started)
        return results

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Note how long the sink has been at work."""
        self._called_at = time.monotonic()
        try:
            yield
        finally:
            self._called_at = math.inf

    def _follow(self, aftermath: Aftermath) -> None:
        """Reset or begin the pauses of the whole bus."""
        self._is_answered = aftermath.is_answered
        if aftermath.is_answered:
            self._backoff.reset()
        if aftermath.is_client_lost:
            self._is_open = False
            self._reporter.change(self._state())
            self._pause(self._backoff.next(aftermath.pause_seconds))

    def _pause(self, seconds: float) -> None:
        """Wait; a drain grants one attempt at once."""
        ends_at = time.monotonic() + seconds
        while (left := ends_at - time.monotonic()) > 0:
            if self._is_abandoned or self._is_hurried:
                return
            self._bell.wait(min(left, BOUND_SECONDS))
            self._bell.clear()
            self._keep_bound()

    def _wake(self) -> None:
        self._is_hurried = False
        with self.lock:
            self._window.retries.wake()
            self._feeds.wake()

    def _keep_bound(self) -> None:
        now = time.monotonic()
        if now - self._bound_at >= BOUND_SECONDS:
            self._bound_at = now
            try:
                with self.lock:
                    self._overflow.keep_bound()
            except OSError as error:
                # A passing lack of files, memory or room: what was given up by now is counted.
                self._reporter.fail("log", str(error))

    def _state(self) -> BusState:
        if self._is_draining:
            return BusState.DRAINING
        if not self._is_open:
            return BusState.DEGRADED if self._is_refused else BusState.CONNECTING
        if not self._is_answered or self._feeds.has_parked:
            return BusState.DEGRADED
        return BusState.SATURATED if self._overflow.is_over else BusState.UP

    def _numbers(self) -> dict[str, float]:
        return {
            "waiting": sum(feed.waiting for feed in self._feeds),
            "parked": sum(feed.parked_waiting for feed in self._feeds),
        }

    def _close(self) -> None:
        try:
            self._sink.close(CLOSE_SECONDS)
        except Exception:
            log.exception("sink failed to close", bus=self._meter.bus)
        self._reporter.change(BusState.CLOSED)


def _outcome_of(results: list[Result]) -> str:
    """Return the outcome of a whole batch."""
    if results.count(OK) == len(results):
        return Outcome.OK.value
    outcomes = {result.outcome for result in results}
    return outcomes.pop().value if len(outcomes) == 1 else "mixed"
