"""The thread of one bus: connects, takes batches from the outbox, sends them, and starts over."""

import threading
import time

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError
from tardis_machine.sinks.backoff import Backoff
from tardis_machine.sinks.base import Event, Sink
from tardis_machine.sinks.fifo import Batch, Entry
from tardis_machine.sinks.meter import Meter
from tardis_machine.sinks.outbox import Outbox
from tardis_machine.sinks.reporter import Reporter
from tardis_machine.sinks.settling import Aftermath, Settler
from tardis_machine.sinks.status import BusState
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

IDLE_SECONDS = 0.1
CLOSE_SECONDS = 2.0


class Courier(threading.Thread):
    """Delivers the events of one outbox through one sink.

    Args:
        sink: the bus.
        outbox: where events come from.
        settler: what applies the outcomes.
        settings: pauses between attempts.
        meter: what counts.
        reporter: what is logged.
    """

    def __init__(
        self,
        sink: Sink,
        outbox: Outbox,
        settler: Settler,
        settings: EventBusSettings,
        meter: Meter,
        reporter: Reporter,
    ) -> None:
        # A hanging client must not keep the process alive.
        super().__init__(name=f"bus-{meter.bus}", daemon=True)
        self._sink = sink
        self._outbox = outbox
        self._settler = settler
        self._meter = meter
        self._reporter = reporter
        self._backoff = Backoff(settings.retry_initial_ms / 1000, settings.retry_max_ms / 1000)
        self._is_open = False
        self._is_refused = False
        """The last attempt to connect failed for a reason that time alone does not heal."""
        self._is_answered = True
        self._current = Batch([], [])
        self._hurry = threading.Event()
        self._is_draining = False
        self._is_last = False
        self._is_abandoned = False
        self.opened = threading.Event()
        """Set once the bus was reached."""

    @property
    def begun(self) -> list[Entry]:
        """Return the events that the sink was asked to send and did not answer for."""
        return [*self._current.entries(), *self._settler.pending]

    @property
    def is_sending(self) -> bool:
        """Say whether a batch is with the sink now."""
        return bool(self._current.events)

    def drain(self) -> None:
        """Deliver without pauses from now on, beginning with one attempt at once."""
        self._is_draining = True
        self._outbox.drain()
        self._hurry.set()

    def finish(self) -> None:
        """End as soon as everything is delivered."""
        self._is_last = True

    def abandon(self) -> None:
        """End after the current call, whatever is left."""
        self._is_abandoned = True
        self._hurry.set()

    def run(self) -> None:
        """Deliver until drained or abandoned."""
        try:
            while not self._is_done():
                if self._is_open or self._open():
                    self._deliver()
                self._reporter.change(self._state())
                self._reporter.summarize(self._numbers)
        except Exception:
            log.exception("bus thread failed", bus=self._meter.bus)
        finally:
            self._close()

    def _is_done(self) -> bool:
        return self._is_abandoned or (self._is_last and self._outbox.is_empty)

    def _open(self) -> bool:
        """Connect, or wait before the next attempt."""
        try:
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
        batch = self._next_batch()
        if batch is None:
            self._sink.idle(0.0)
            return
        self._current = batch
        aftermath = self._settler.settle(batch, self._send(batch.events))
        self._current = Batch([], [])
        self._follow(aftermath)

    def _next_batch(self) -> Batch | None:
        max_events = 1 if self._backoff.is_circuit_open else self._sink.max_batch_events
        return self._settler.next_again(max_events) or self._outbox.next_batch(
            max_events,
            self._sink.max_batch_bytes,
            self._sink.max_batch_delay_seconds,
            IDLE_SECONDS,
        )

    def _send(self, events: list[Event]) -> list[Result]:
        """Hand events to the sink; whatever it raises means that its client is lost."""
        started = time.monotonic()
        try:
            results = list(self._sink.send(events))
        except Exception as error:
            if not isinstance(error, SinkError):
                log.exception("sink failed to send", bus=self._meter.bus)
            results = [Result(Outcome.CLIENT_LOST, Reason.CLIENT_FAILED, str(error))] * len(events)
        self._meter.sent(events, _outcome_of(results), time.monotonic() - started)
        return results

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
        if self._hurry.wait(seconds):
            self._hurry.clear()

    def _state(self) -> BusState:
        if self._is_draining:
            return BusState.DRAINING
        if not self._is_open:
            return BusState.DEGRADED if self._is_refused else BusState.CONNECTING
        if not self._is_answered or self._outbox.misdirected:
            return BusState.DEGRADED
        return BusState.SATURATED if self._outbox.is_full else BusState.UP

    def _numbers(self) -> dict[str, float]:
        return {
            "queued": self._outbox.queued,
            "spooled": self._outbox.spooled,
            "oldest_seconds": round(self._outbox.oldest_seconds, 1),
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
