"""A bus in memory with its outbox and thread, for tests of delivery."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.sinks.base import Event, Sink
from tardis_machine.sinks.bus import Bus
from tardis_machine.sinks.tickets import Ticket
from tardis_machine.telemetry.metrics import Metrics
from tests.contract.sinks import make_events
from tests.contract.test_memory_sink import MemorySettings

SECONDS = 120


def events(count: int, *symbols: str, first: int = 0) -> list[Event]:
    """Return trades of some symbols in turn."""
    router = MemorySettings().router()
    return make_events(router, count, symbols=symbols or ("XBTUSD",), first=first)


def now_us() -> int:
    return time.time_ns() // 1000


def delivery(**options: Any) -> EventBusSettings:
    """Return settings with short pauses."""
    return EventBusSettings(
        **{"producer_id": "tester", "retry_initial_ms": 1, "retry_max_ms": 5, **options}
    )


def make_bus(sink: Sink, folder: Path, settings: BusSettings | None = None, **options: Any) -> Bus:
    """Return a bus that was not started."""
    metrics = Metrics().event_bus
    return Bus(settings or MemorySettings(), delivery(**options), sink, folder, metrics, now_us)


@contextmanager
def running(
    sink: Sink, folder: Path, settings: BusSettings | None = None, **options: Any
) -> Iterator[Bus]:
    """Run a bus while the body runs."""
    bus = make_bus(sink, folder, settings, **options)
    bus.start()
    try:
        yield bus
    finally:
        bus.stop(5)


def offer(bus: Bus, offered: list[Event]) -> threading.Event:
    """Offer events in one list; what is returned is set when all are settled."""
    done = threading.Event()
    ticket = Ticket(done.set, len(offered))
    ticket.complete()
    bus.meter.enqueued(len(offered))
    assert bus.outbox.offer(offered, ticket) == len(offered)
    return done


def deliver(bus: Bus, offered: list[Event]) -> None:
    """Offer events and wait until they are settled."""
    assert offer(bus, offered).wait(SECONDS)


def ids(stored: Sequence[Event], symbol: str | None = None) -> list[str]:
    """Return delivery ids in their order, of one symbol or of all."""
    return [event.delivery_id for event in stored if symbol in (None, event.series.symbol)]


def wait_until(is_true: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)
