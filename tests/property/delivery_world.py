"""A server with its writers and its publisher in one process: real files, buses in memory.

It knows what was accepted, and compares it with what the buses say and got.
"""

import resource
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from tardis_machine.buses.settings import EventBusSettings, Overflow
from tardis_machine.sinks.dead_letters.files import letter_files, read_letters
from tardis_machine.sinks.delivery.bus import Bus
from tardis_machine.sinks.publisher.publisher import Publisher, skipped_events
from tardis_machine.sinks.storage.directory import LogDirectory, LogReader, find_logs
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.positions import BEGINNING, read_position
from tardis_machine.sinks.storage.reader import last_chunk
from tardis_machine.telemetry.declarations import Declarations
from tardis_machine.telemetry.event_bus_metrics import EventBusMetrics
from tests.property.crashes import close_publisher, close_writer, crashing, writer_locks
from tests.property.delivery_buses import Broker, ModelSettings, ModelSink, OtherSettings
from tests.property.delivery_writers import PRODUCER, START_US, Accepted, Writer

DRAIN_STEPS = 2000
WINDOW = 8
"""Events that a bus reads ahead."""
HOUR_MS = 300_000
"""No pause between attempts ends by itself in a test."""

Moment = tuple[int, float]
"""Where somebody dies: after how many system calls, and how much of a last write is left."""


class Bounded(EventBusSettings):
    """A bus that gives up events when a few chunks wait."""

    @property
    def backlog_max_bytes(self) -> int:
        return 2000


class World:
    """Everything that survives, and whoever lives now."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.instance = 0
        self.settings: list[ModelSettings] = [ModelSettings(), OtherSettings()]
        self.brokers: dict[LogReader, Broker] = defaultdict(Broker)
        self.logs: dict[str, Accepted] = {}
        self.writers: list[Writer] = []
        self.publisher: Publisher | None = None
        self.overflow: Overflow | None = None
        """What is given up of a backlog beyond a small bound; None: there is no bound."""
        self.may_drop = False
        """The disk was full while a dead letter may have been written."""
        self.kinds_filtered: dict[str, set[str]] = defaultdict(set)
        self._now = START_US
        self._counted: dict[LogReader, dict[str, int]] = {}
        """What was settled of each log when the publisher came."""
        self._removed: set[str] = set()
        """Logs that were gone by then."""

    @property
    def readers(self) -> list[LogReader]:
        return [LogReader(each.bus, each.endpoint) for each in self.settings]

    @property
    def broker(self) -> Broker:
        """Return what stands behind the first bus."""
        return self.brokers[self.readers[0]]

    @property
    def buses(self) -> Sequence[Bus]:
        return self.publisher.buses if self.publisher else ()

    def heal(self) -> None:
        for broker in self.brokers.values():
            broker.is_down = False
            broker.results.clear()

    # Writers

    def add_writer(self) -> None:
        self._now += 1
        writer = Writer(self.root, self.instance, self.readers, self._now)
        self.writers.append(writer)
        self.logs[writer.directory.log_id] = Accepted(writer.directory, self.instance)

    def write(self, writer: Writer, lines: Sequence[tuple[str, str]]) -> None:
        try:
            writer.append(lines)
        except OSError:
            writer.give_up(len(lines))
            self.logs[writer.directory.log_id].not_written += len(lines)
        else:
            self.logs[writer.directory.log_id].add(lines)

    def kill_writer(self, writer: Writer, lines: Sequence[tuple[str, str]], moment: Moment) -> None:
        """Let a worker die while it writes."""
        accepted = self.logs[writer.directory.log_id]
        with crashing(*moment):
            writer.append(lines)
        self._bury_writer(writer)
        last = last_chunk(writer.directory.path)
        if last is not None and last.number > accepted.chunks:
            accepted.add(lines)

    def _bury_writer(self, writer: Writer) -> None:
        self.writers.remove(writer)
        close_writer(writer.directory.path)

    # The publisher

    def start_publisher(self) -> None:
        on_disk = list(find_logs(self.root))
        self._counted = {
            reader: {each.log_id: self._settled_before(each, reader) for each in on_disk}
            for reader in self.readers
        }
        self._removed = self.logs.keys() - {each.log_id for each in on_disk}
        registry = CollectorRegistry()
        metrics = EventBusMetrics(Declarations(registry, [], "event_bus"))
        buses = [self._bus(each, metrics) for each in self.settings]
        instance = str(self.instance)
        self.publisher = Publisher(buses, self.root, PRODUCER, instance, registry, metrics)

    def _bus(self, settings: ModelSettings, metrics: EventBusMetrics) -> Bus:
        broker = self.brokers[LogReader(settings.bus, settings.endpoint)]
        pauses = {"retry_initial_ms": HOUR_MS, "retry_max_ms": HOUR_MS}
        delivery = EventBusSettings(producer_id=PRODUCER, **pauses)
        if self.overflow is not None:
            delivery = Bounded(producer_id=PRODUCER, overflow=self.overflow, **pauses)
        bus = Bus(
            settings, delivery, ModelSink(broker), self.root, metrics, lambda: self._now, WINDOW
        )
        # It has no thread, and waits for nothing.
        bus.stop(0)
        return bus

    def step(self, bus: int) -> None:
        assert self.publisher is not None
        self.publisher.buses[bus].step()

    def tidy(self) -> None:
        assert self.publisher is not None
        self.publisher.find_logs()
        self.publisher.tidy()

    def kill_publisher(self, moment: Moment, action: str) -> None:
        """Let the publisher die while it does something."""
        publisher = self.publisher
        assert publisher is not None
        locks = writer_locks(self.root)
        with crashing(*moment):
            if action == "start":
                self._bury_publisher(locks)
                self.start_publisher()
            elif action == "tidy":
                publisher.find_logs()
                publisher.tidy()
            else:
                for bus in publisher.buses:
                    bus.step()
        self._bury_publisher(locks)

    def _bury_publisher(self, locks: set[int]) -> None:
        self.publisher = None
        close_publisher(self.root, locks)

    def stop_publisher(self) -> None:
        if self.publisher is not None:
            self.publisher.close()
        self.publisher = None

    def _settled_before(self, directory: LogDirectory, reader: LogReader) -> int:
        """Return how many events of another server's log are settled already."""
        if directory.owner.instance == str(self.instance):
            return 0
        position = read_position(directory.position_path(reader)) or BEGINNING
        settled = position.events - position.count(Settled.PARKED)
        settled += skipped_events(directory, reader, position)
        parked = waiting = 0
        for path in directory.parked_path(reader).glob("*"):
            passed = (read_position(path / "position") or BEGINNING).events
            last = last_chunk(path)
            written = max(passed, last.first_event + last.events if last else 0)
            parked += written
            waiting += written - passed
        # One that was parked twice, because of a death between the two, is one event.
        repeats = parked - position.count(Settled.PARKED)
        return settled + parked - waiting - max(0, repeats - waiting)

    # Checks

    def check(self) -> None:
        if self.publisher is not None:
            self.publisher.find_logs()
            for bus in self.publisher.buses:
                self._check_counts(bus)
        for broker in self.brokers.values():
            broker.check()

    def _check_counts(self, bus: Bus) -> None:
        status = bus.status()
        totals = status.totals
        found = {
            "delivered": totals.published,
            "filtered": totals.filtered,
            "dead": totals.dead,
            "dropped": totals.dropped,
            "quarantined": totals.quarantined,
            "waiting": status.queued,
            "parked": status.parked,
        }
        before = self._counted[bus.reader]
        accepted = {
            log_id: len(log.events)
            - before.get(log_id, 0)
            + (log.not_written if log.instance == self.instance else 0)
            for log_id, log in self.logs.items()
            if bus.reader in log.directory.owner.readers and log_id not in self._removed
        }
        assert min(found.values()) >= 0, found
        assert sum(found.values()) == sum(accepted.values()), (bus.name, found, accepted)

    # The server

    def start(self, settings: Sequence[ModelSettings], overflow: Overflow | None = None) -> None:
        self.instance += 1
        self.overflow = overflow
        self.may_drop |= overflow is not None
        self.settings = list(settings)
        for each in settings:
            self.kinds_filtered[each.bus] |= {
                kind
                for kind in ("trade", "liquidation")
                if each.include_payloads not in ((), (kind,))
            }
        self.add_writer()
        self.start_publisher()

    def stop(self) -> None:
        for writer in self.writers:
            writer.close()
        self.writers.clear()
        self.stop_publisher()

    def kill(self) -> None:
        for writer in list(self.writers):
            self._bury_writer(writer)
        self._bury_publisher(set())

    def drain(self) -> None:
        """Deliver everything that is left for the buses of now."""
        assert self.publisher is not None
        self.publisher.find_logs()
        for _ in range(DRAIN_STEPS):
            if all(bus.is_empty for bus in self.publisher.buses):
                break
            for bus in self.publisher.buses:
                bus.drain()
                bus.step()
        for bus in self.publisher.buses:
            status = bus.status()
            assert (status.queued, status.parked) == (0, 0), status

    def _letters(self, reader: LogReader) -> set[str]:
        """Return the delivery ids of the dead letters of a bus."""
        return {
            letter.headers["deliveryId"]
            for path in letter_files(self.root / reader.bus)
            for letter in read_letters(path)
        }

    def check_nothing_is_lost(self) -> None:
        """Check that every accepted event arrived, is a dead letter, or is not for that bus."""
        for reader, broker in self.brokers.items():
            letters = self._letters(reader)
            excused = {"garbage", *self.kinds_filtered[reader.bus]}
            missing = [
                delivery_id
                for log in self.logs.values()
                if reader in log.directory.owner.readers
                for delivery_id, kind in log.events
                if kind not in excused and delivery_id not in broker.first.keys() | letters
            ]
            assert not missing or self.may_drop, (reader, missing)
        assert not list((self.root / "logs").iterdir())


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
