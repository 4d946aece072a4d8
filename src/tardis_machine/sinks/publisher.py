"""The inside of the publisher process: records in, events to every bus.

Decode, filter and encode happen once for all buses; each bus then has its own outbox and thread.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from tardis_machine.bronze.cases import PayloadCase, case_of
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import Envelope, identities
from tardis_machine.bronze.routing import ALL_CASES
from tardis_machine.buses.files.log import parse_records
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import cases_of
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord, decode_lines
from tardis_machine.model.time import Clock
from tardis_machine.sinks.bus import Bus
from tardis_machine.sinks.frames import Redrive, Status, StreamContext
from tardis_machine.sinks.gate import Gate
from tardis_machine.sinks.records import RecordReader
from tardis_machine.sinks.registry import make_sink
from tardis_machine.sinks.storage.directory import base36
from tardis_machine.sinks.tickets import Ticket
from tardis_machine.telemetry.exposition import expose
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.metrics import Declarations, EventBusMetrics

log = get_logger(__name__)


class Stream:
    """The records of one request or job: they share an encoder, and with it their ordinals."""

    def __init__(self, publisher: "Publisher", context: StreamContext) -> None:
        self._publisher = publisher
        self.context = context
        self._prefix = f"{context.producer_id}-{publisher.boot}-"
        self._encoder = Encoder(
            context.producer_id,
            context.origin,
            context.meta,
            cases=publisher.cases,
            on_reject=publisher.reject,
        )

    async def publish(self, lines: bytes | bytearray, ticket: Ticket) -> None:
        """Publish NDJSON lines; returns when every bus has taken, kept or dropped their events."""
        envelopes = self._encode(lines)
        await self._publisher.accept(envelopes, self._prefix, self.context, ticket)

    def prime(self, lines: bytes | bytearray) -> None:
        """Count lines that were published before, so that ordinals go on after them."""
        self._encoder.encode(self._publisher.decode(lines), 0)

    def _encode(self, lines: bytes | bytearray) -> list[Envelope]:
        records = self._publisher.decode(lines)
        self._publisher.count_filtered(records)
        return self._encoder.encode(records, self._publisher.clock())


class Publisher:
    """Publishes to several buses; made inside a running event loop.

    Args:
        buses: those that are on.
        registry: where they count.
        clock: what time it is.
    """

    def __init__(self, buses: Sequence[Bus], registry: CollectorRegistry, clock: Clock) -> None:
        self.buses = buses
        self._registry = registry
        self.clock = clock
        self.boot = base36(clock())
        self.cases = cases_of(bus.settings for bus in buses)
        self._gates = [Gate(bus) for bus in buses]
        self._next_number = 1
        self._records = RecordReader()

    @property
    def lost(self) -> int:
        """Return how many events were lost."""
        return sum(bus.meter.totals.dropped for bus in self.buses)

    def start(self) -> None:
        """Begin to deliver."""
        for bus in self.buses:
            bus.start()

    def stream(self, context: StreamContext) -> Stream:
        """Begin a stream."""
        return Stream(self, context)

    async def accept(
        self, envelopes: Sequence[Envelope], prefix: str, context: StreamContext, ticket: Ticket
    ) -> None:
        """Pass envelopes to every bus that publishes them; a full bus does not block the others."""
        if not envelopes:
            return
        event_ids = identities(envelopes)
        first, self._next_number = self._next_number, self._next_number + len(envelopes)
        delivery_ids = [f"{prefix}{number}" for number in range(first, self._next_number)]
        now = time.monotonic()
        turned_away = []
        for gate in self._gates:
            events = gate.bus.address(envelopes, event_ids, delivery_ids, now)
            ticket.add(len(events))
            if left := gate.offer(events, ticket, waits=context.waits):
                turned_away.append((gate, left))
        for gate, left in turned_away:
            await gate.push(left, ticket, context.origin, waits=context.waits)

    async def redrive(self, redrive: Redrive, context: StreamContext, ticket: Ticket) -> None:
        """Send events of a log or of dead letters again, under their old identities."""
        try:
            events = self._records.events(list(parse_records(redrive.records)))
        except EnvelopeError as error:
            log.error("redrive failed: events could not be decoded", error=str(error))
            return
        for gate in self._gates:
            if redrive.bus in ("", gate.bus.name):
                chosen = events if redrive.bus else gate.bus.readdress(events)
                gate.bus.meter.enqueued(len(chosen))
                ticket.add(len(chosen))
                if left := gate.offer(chosen, ticket, waits=context.waits):
                    await gate.push(left, ticket, context.origin, waits=context.waits)

    def press(self, *, is_pressed: bool) -> None:
        """Treat the queues of lagging buses as full while a server has too much unacknowledged."""
        for bus in self.buses:
            bus.outbox.is_pressed = is_pressed and bus.is_lagging

    def decode(self, lines: bytes | bytearray) -> Sequence[NormalizedRecord]:
        """Read NDJSON; a line that cannot be read is dropped and counted."""
        try:
            return decode_lines(lines)
        except msgspec.DecodeError:
            return list(self._decode_each(lines))

    def reject(self, record: NormalizedRecord, error: EnvelopeError) -> None:
        """Count a record that does not fit into an envelope."""
        log.error("record dropped: it could not be encoded", error=str(error))
        self.lose(Reason.UNENCODABLE, 1)

    def count_filtered(self, records: Iterable[NormalizedRecord]) -> None:
        """Count records that lists of payload cases leave out."""
        if all(bus.cases == ALL_CASES for bus in self.buses):
            return
        counts: Counter[PayloadCase] = Counter(map(case_of, records))
        for bus in self.buses:
            bus.meter.filtered({case: counts[case] for case in counts if case not in bus.cases})

    def lose(self, reason: Reason, count: int) -> None:
        """Count events that were lost before any bus saw them."""
        for bus in self.buses:
            bus.meter.enqueued(count)
            bus.meter.lost(reason, count)

    def status(self) -> Status:
        """Say how every bus is doing."""
        buses = {bus.name: bus.status() for bus in self.buses}
        return Status(buses, expose(self._registry.collect()))

    def _decode_each(self, lines: bytes | bytearray) -> Iterable[NormalizedRecord]:
        for line in lines.splitlines():
            try:
                yield from decode_lines(line)
            except msgspec.DecodeError as error:
                log.error("line from a worker dropped: it could not be decoded", error=str(error))
                self.lose(Reason.UNREADABLE, 1)


def open_publisher(settings: PublishingSettings, directory: Path, clock: Clock) -> Publisher:
    """Make a publisher for every bus that is on, each with its own directory below the given."""
    registry = CollectorRegistry()
    metrics = EventBusMetrics(Declarations(registry, [], "event_bus"))
    buses = []
    for bus in settings.active:
        delivery = settings.delivery(bus)
        place = (delivery.spool_dir or directory) / bus.bus
        sink = make_sink(bus, delivery)
        buses.append(Bus(bus, delivery, sink, place, metrics, clock))
    return Publisher(buses, registry, clock)
