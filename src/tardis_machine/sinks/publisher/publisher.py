"""The inside of the publisher process: which bus reads which log, and what is left of each."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry

from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import cases_of
from tardis_machine.model.time import Clock
from tardis_machine.sinks.delivery.bus import Bus
from tardis_machine.sinks.delivery.encoding import LogEncoding, delete_ordinals
from tardis_machine.sinks.registry import make_sink
from tardis_machine.sinks.reporting.status import Status, Stranded
from tardis_machine.sinks.storage.directory import LogDirectory, LogReader, find_logs
from tardis_machine.sinks.storage.positions import BEGINNING, Position, read_position
from tardis_machine.sinks.storage.reader import last_chunk
from tardis_machine.sinks.storage.segments import IsPassed, delete_passed, list_segments
from tardis_machine.sinks.storage.skipped import SkippedRanges
from tardis_machine.telemetry.declarations import Declarations
from tardis_machine.telemetry.event_bus_metrics import EventBusMetrics
from tardis_machine.telemetry.exposition import expose
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)


class Publisher:
    """Publishes the logs below a directory to several buses.

    It reads the logs of its own server or job, and those that ended writers with the same producer
    id left. What is for an endpoint that no bus has now stays, and is named.

    Args:
        buses: those that are on.
        root: where logs are.
        producer_id: whose logs are taken over.
        instance: the server or job it belongs to.
        registry: where buses count.
        metrics: what they count with.
    """

    def __init__(
        self,
        buses: Sequence[Bus],
        root: Path,
        producer_id: str,
        instance: str,
        registry: CollectorRegistry,
        metrics: EventBusMetrics,
    ) -> None:
        self.buses = buses
        self._root = root
        self._producer_id = producer_id
        self._instance = instance
        self._registry = registry
        self._metrics = metrics
        self._cases = cases_of(bus.settings for bus in buses)
        self._encodings: dict[str, LogEncoding] = {}
        self._stranded: tuple[Stranded, ...] = ()
        self.find_logs(is_start=True)
        self._name_others()

    @property
    def lost(self) -> int:
        """Return how many events were lost."""
        return sum(bus.lost for bus in self.buses)

    @property
    def has_writers(self) -> bool:
        """Say whether somebody of the own server or job still writes."""
        own = (each for each in find_logs(self._root) if each.owner.instance == self._instance)
        return any(directory.has_writer for directory in own)

    def start(self) -> None:
        """Begin to deliver."""
        for bus in self.buses:
            bus.start()

    def find_logs(self, *, is_start: bool = False) -> None:
        """Look for logs that nobody reads yet."""
        stranded: list[Stranded] = []
        found = list(find_logs(self._root))
        for directory in found:
            is_own = directory.owner.instance == self._instance
            if is_own or (self._is_ours(directory) and not directory.has_writer):
                self._read(directory, is_own=is_own, comes_first=is_start and not is_own)
                stranded += self._strangers(directory)
        self._name_stranded(stranded)
        known = {directory.log_id for directory in found}
        for bus in self.buses:
            bus.keep_awaiting(known)
        self._encodings = {each: made for each, made in self._encodings.items() if each in known}

    def tidy(self) -> None:
        """Delete segments that every bus has passed, and logs with nothing left."""
        for bus in self.buses:
            bus.release_drained()
        for directory in find_logs(self._root):
            if directory.log_id in self._encodings:
                tidy_log(directory)

    def ring(self) -> None:
        """Say that something was written."""
        for bus in self.buses:
            bus.ring()

    def status(self) -> Status:
        """Say how every bus is doing."""
        buses = {bus.name: bus.status() for bus in self.buses}
        metrics = expose(self._registry.collect())
        return Status(buses, metrics, self._stranded, written_at=time.time())

    def close(self) -> None:
        """Close all logs, and delete those with nothing left; the buses have stopped."""
        for bus in self.buses:
            bus.close()
        self.tidy()

    def _is_ours(self, directory: LogDirectory) -> bool:
        return directory.owner.producer_id == self._producer_id

    def _read(self, directory: LogDirectory, *, is_own: bool, comes_first: bool) -> None:
        encoding = self._encodings.get(directory.log_id)
        if encoding is None:
            encoding = LogEncoding(directory, self._cases, len(self.buses))
            self._encodings[directory.log_id] = encoding
        for bus in self.buses:
            if not bus.read(directory, encoding, is_own=is_own, comes_first=comes_first):
                log.debug("log is read by another process", bus=bus.name, log=directory.log_id)

    def _strangers(self, directory: LogDirectory) -> Iterable[Stranded]:
        """Yield what a log holds for endpoints that no bus has."""
        ours = {bus.reader for bus in self.buses}
        for reader in directory.owner.readers:
            if reader not in ours and (events := waiting_events(directory, reader)):
                yield Stranded(reader.bus, reader.endpoint, events)

    def _name_others(self) -> None:
        """Name what ended writers with another producer id left: nobody sends it but they."""
        left: Counter[tuple[str, str]] = Counter()
        for directory in find_logs(self._root):
            if self._is_ours(directory) or directory.has_writer:
                continue
            for reader in directory.owner.readers:
                # Its next start may be reading and deleting it just now.
                with suppress(FileNotFoundError):
                    name = directory.owner.producer_id, reader.bus
                    left[name] += waiting_events(directory, reader)
        for (producer_id, bus), events in left.items():
            if events:
                log.warning(
                    "events of another producer wait for its next start",
                    producer_id=producer_id,
                    bus=bus,
                    events=events,
                    action=f"or start once with event-bus-producer-id={producer_id}",
                )

    def _name_stranded(self, stranded: Sequence[Stranded]) -> None:
        before = {(each.bus, each.endpoint) for each in self._stranded}
        counts = Counter({each.bus: 0 for each in self._stranded})
        for each in stranded:
            counts[each.bus] += each.events
        for bus, events in counts.items():
            self._metrics.stranded_events.labels(bus).set(events)
        self._stranded = tuple(stranded)
        for each in stranded:
            if (each.bus, each.endpoint) not in before:
                log.warning(
                    "events are left for an endpoint that is not configured any more",
                    bus=each.bus,
                    endpoint=each.endpoint,
                    events=each.events,
                    action="configure it again, or: tardis-machine bus redrive|discard",
                )


def waiting_events(directory: LogDirectory, reader: LogReader) -> int:
    """Return how many events of a log a bus has not settled; those parked not included."""
    position = read_position(directory.position_path(reader))
    last = last_chunk(directory.path)
    accepted = last.first_event + last.events if last else 0
    given_up = skipped_events(directory, reader, position or BEGINNING)
    return accepted - (position or BEGINNING).events - given_up


def skipped_events(directory: LogDirectory, reader: LogReader, position: Position) -> int:
    """Return how many events a bus has given up behind its position."""
    return SkippedRanges(directory.skipped_path(reader)).dropped_after(position.number)


def tidy_log(directory: LogDirectory) -> None:
    """Delete what all readers have passed; all of it, when they have and nothing more comes."""
    readers = directory.owner.readers
    if delete_passed(directory.path, [_needs_nothing_of(directory, reader) for reader in readers]):
        delete_ordinals(directory.path, list_segments(directory.path))
    if directory.has_writer or any(map(directory.is_read, readers)):
        return
    if not any(has_left(directory, reader) for reader in readers):
        directory.remove()


def _needs_nothing_of(directory: LogDirectory, reader: LogReader) -> IsPassed:
    """Return what says whether a reader is past a stretch of a log, or will not read it."""
    position = read_position(directory.position_path(reader)) or BEGINNING
    skipped = SkippedRanges(directory.skipped_path(reader))
    return lambda start, end: (
        end <= position.offset or skipped.covers(max(start, position.offset), end)
    )


def has_left(directory: LogDirectory, reader: LogReader) -> bool:
    """Say whether a log holds anything that a bus has not settled."""
    if waiting_events(directory, reader) > 0:
        return True
    return any(directory.parked_path(reader).glob("*/*.chunks"))


def open_publisher(
    settings: PublishingSettings, root: Path, instance: str, clock: Clock
) -> Publisher:
    """Make a publisher for every bus that is on."""
    registry = CollectorRegistry()
    metrics = EventBusMetrics(Declarations(registry, [], "event_bus"))
    buses = []
    for bus in settings.active:
        delivery = settings.delivery(bus)
        buses.append(Bus(bus, delivery, make_sink(bus, delivery), root, metrics, clock))
    producer_id = settings.event_bus.producer_id
    return Publisher(buses, root, producer_id, instance, registry, metrics)
