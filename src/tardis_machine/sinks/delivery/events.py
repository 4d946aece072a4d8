"""Events of chunks for one bus: under the routes, and past the filters, of now."""

from collections import Counter
from collections.abc import Iterable

from tardis_machine.bronze.cases import AnyCase, NewerCase
from tardis_machine.bronze.envelope import Envelope
from tardis_machine.bronze.routing import Router
from tardis_machine.buses.files.log import LogRecord, parse_records
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.time import SECOND_US
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.delivery.context import parse_context
from tardis_machine.sinks.delivery.encoding import EncodedChunk, LogEncoder, LogEncoding
from tardis_machine.sinks.records import RecordReader
from tardis_machine.sinks.storage.chunks import Flags
from tardis_machine.sinks.storage.in_flight import ChunkInFlight
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.reader import Chunk
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)


def address(
    envelopes: Iterable[Envelope],
    router: Router,
    event_ids: Iterable[str],
    delivery_ids: Iterable[str],
    accepted_at: float,
) -> list[Event]:
    """Return the events of envelopes that a bus takes; both kinds of ids are one per envelope."""
    routes = router.routes
    return [
        Event(route, envelope.series, envelope.data, event_id, delivery_id, accepted_at)
        for envelope, event_id, delivery_id in zip(envelopes, event_ids, delivery_ids, strict=True)
        if (route := envelope.series.derived[routes]) is not None
    ]


class LogEvents:
    """Makes events of the chunks of one log for one bus.

    Args:
        bus: name of the bus.
        router: where its events go.
        encoding: of the log, shared with other buses.
        left_out: counts the events that include and exclude lists leave out.
    """

    def __init__(
        self, bus: str, router: Router, encoding: LogEncoding, left_out: Counter[AnyCase]
    ) -> None:
        self._bus = bus
        self._router = router
        self._encoding = encoding
        self._own: LogEncoder | None = None
        """Encodes while this bus lags behind the others."""
        self._left_out = left_out
        self._records = RecordReader()

    def make(self, chunk: Chunk, place: ChunkInFlight) -> list[Event]:
        """Return the events of a chunk that wait, and settle those that this bus does not take."""
        if chunk.head.flags & Flags.RECORDS:
            return self._of_records(chunk, place)
        encoded = self._encode(chunk)
        return self._of_lines(encoded, place, chunk.head.appended_us / SECOND_US)

    def _encode(self, chunk: Chunk) -> EncodedChunk:
        shared = self._encoding.find(chunk)
        if shared is not None:
            self._own = None
            return shared
        if self._own is None or self._own.end != chunk.start:
            self._own = self._encoding.encoder_at(chunk)
        return self._own.encode(chunk)

    def _of_lines(
        self, encoded: EncodedChunk, place: ChunkInFlight, accepted_at: float
    ) -> list[Event]:
        if place.waiting == len(place.outcomes):
            # Read for the first time.
            self._left_out.update(encoded.left_out)
        place.note(encoded.outcomes)
        outcomes, routes = place.outcomes, self._router.routes
        events: list[Event] = []
        add = events.append
        for envelope, line, event_id, delivery_id in zip(*encoded[:4], strict=True):
            if outcomes[line]:
                continue
            series = envelope.series
            route = series.derived[routes]
            if route is None:
                outcomes[line] = Settled.FILTERED
                self._left_out[series.case] += 1
            else:
                add(
                    Event(
                        route,
                        series,
                        envelope.data,
                        event_id,
                        delivery_id,
                        accepted_at,
                        place,
                        line,
                    )
                )
        return events

    def _of_records(self, chunk: Chunk, place: ChunkInFlight) -> list[Event]:
        bus = parse_context(chunk.context).bus
        if bus not in ("", self._bus):
            place.settle_rest(Settled.FILTERED)
            return []
        router = None if bus else self._router
        accepted_at = chunk.head.appended_us / SECOND_US
        return events_of_records(
            self._records, chunk.body, place, accepted_at, router, self._left_out
        )


def events_of_records(
    reader: RecordReader,
    body: bytes,
    place: ChunkInFlight,
    accepted_at: float,
    router: Router | None,
    left_out: Counter[AnyCase],
) -> list[Event]:
    """Return the events of packed records that wait; without a router they keep their routes.

    Those that a router leaves out are settled, and counted in `left_out`.
    """
    events = []
    for line, record in enumerate(parse_records(body)):
        if place.outcomes[line]:
            continue
        event = _read(reader, record)
        if event is None:
            place.outcomes[line] = Settled.UNREADABLE
            continue
        # Settings cannot name a payload that only a newer version knows.
        is_newer = isinstance(event.series.case, NewerCase)
        route = event.route if router is None or is_newer else router.route(event.series)
        if route is None:
            place.outcomes[line] = Settled.FILTERED
            left_out[event.series.case] += 1
            continue
        event.route, event.accepted_at = route, accepted_at
        event.place, event.line = place, line
        events.append(event)
    return events


def _read(reader: RecordReader, record: LogRecord) -> Event | None:
    try:
        return reader.event(record)
    except EnvelopeError as error:
        log.error("event dropped: its envelope could not be decoded", error=str(error))
        return None
