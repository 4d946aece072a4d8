"""A bus in memory with its log and thread, for tests of delivery."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.sinks.base import Event, Sink
from tardis_machine.sinks.delivery.bus import Bus
from tardis_machine.sinks.memory import MemorySink
from tardis_machine.sinks.reporting.status import BusStatus
from tardis_machine.telemetry.metrics import Metrics
from tests.contract.event_logs import Delivery, EventLog, now_us
from tests.contract.sinks import make_events
from tests.contract.test_memory_sink import MemorySettings

SECONDS = 120
MISSING = Result(Outcome.BAD_DESTINATION, Reason.NO_DESTINATION, "no such stream")


def events(count: int, *symbols: str, first: int = 0) -> list[Event]:
    """Return trades of some symbols in turn."""
    router = MemorySettings().router()
    return make_events(router, count, symbols=symbols or ("XBTUSD",), first=first)


def delivery(**options: Any) -> EventBusSettings:
    """Return settings with short pauses."""
    return EventBusSettings(
        **{"producer_id": "tester", "retry_initial_ms": 1, "retry_max_ms": 5, **options}
    )


def missing_but(symbol: str) -> MemorySink:
    """Return a bus that has the destination of one symbol only."""
    sink = MemorySink()
    sink.judge = lambda event: None if event.series.symbol == symbol else MISSING
    return sink


class LoggedBus(Bus):
    """A bus that reads one log."""

    log: EventLog
    last_status: BusStatus
    """How it was before its files were closed."""


def make_bus(
    sink: Sink,
    folder: Path,
    settings: BusSettings | None = None,
    log: EventLog | None = None,
    **options: Any,
) -> LoggedBus:
    """Return a bus that was not started, with a log to read."""
    metrics = Metrics().event_bus
    bus = LoggedBus(
        settings or MemorySettings(), delivery(**options), sink, folder, metrics, now_us
    )
    bus.log = log or EventLog(folder, bus.reader)
    bus.log.read_by(bus)
    return bus


@contextmanager
def running(
    sink: Sink,
    folder: Path,
    settings: BusSettings | None = None,
    log: EventLog | None = None,
    **options: Any,
) -> Iterator[LoggedBus]:
    """Run a bus while the body runs."""
    bus = make_bus(sink, folder, settings, log, **options)
    bus.start()
    try:
        yield bus
    finally:
        bus.stop(5)
        bus.last_status = bus.status()
        bus.close()


def stepping(sink: MemorySink, folder: Path, settings: BusSettings, log: EventLog) -> LoggedBus:
    """Return a bus without a thread, which waits for nothing."""
    bus = make_bus(sink, folder, settings, log)
    bus.stop(0)
    return bus


def parked_after_a_step(bus: LoggedBus) -> int:
    bus.step()
    return bus.status().parked


def offer(bus: LoggedBus, offered: list[Event]) -> Delivery:
    """Write events to the log; what is returned is set when all are settled."""
    bus.log.append(offered)
    bus.ring()
    return Delivery(bus, bus.log.events)


def deliver(bus: LoggedBus, offered: list[Event]) -> None:
    """Write events and wait until they are settled."""
    assert offer(bus, offered).wait(SECONDS)


def ids(stored: Sequence[Event], symbol: str | None = None) -> list[str]:
    """Return delivery ids in their order, of one symbol or of all."""
    return [event.delivery_id for event in stored if symbol in (None, event.series.symbol)]


def wait_until(is_true: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)
