"""Events to log records and back."""

import struct
import time
from collections.abc import Iterable, Sequence
from weakref import WeakValueDictionary

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.envelope import identity, parse_event
from tardis_machine.bronze.routing import Route
from tardis_machine.bronze.series import Origin, PerSeries, Series
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import DELIVERY_ID, EVENT_ID, Headers
from tardis_machine.sinks.log import RECORD_HEADER, LogRecord, pack_headers, unpack_headers

_EVENT_ID = struct.Struct("<HI7s")
_DELIVERY_ID = struct.Struct("<HI10s")
_IDS_BYTES = _EVENT_ID.size + _DELIVERY_ID.size
_KNOWN_ROUTES = 16_384


class RecordPacker:
    """Packs events as log records; what a series shares is packed once."""

    def __init__(self, headers: Headers) -> None:
        self._heads: PerSeries[_Head] = PerSeries(lambda series: _Head(headers, series))

    def pack(self, events: Iterable[Event]) -> bytes:
        """Return the payload of a block."""
        heads = self._heads
        parts: list[bytes] = []
        add, sizes = parts.extend, RECORD_HEADER.pack
        event_head, delivery_head = _EVENT_ID.pack, _DELIVERY_ID.pack
        for event in events:
            head = event.series.derived[heads]
            if head.route is not event.route:
                head.use(event.route)
            event_id, delivery_id = event.event_id.encode(), event.delivery_id.encode()
            data = event.data
            ids_bytes = _IDS_BYTES + len(event_id) + len(delivery_id)
            add(
                (
                    sizes(
                        head.target_bytes,
                        head.key_bytes,
                        head.headers_bytes + ids_bytes,
                        len(data),
                    ),
                    head.packed,
                    event_head(7, len(event_id), b"eventId"),
                    event_id,
                    delivery_head(10, len(delivery_id), b"deliveryId"),
                    delivery_id,
                    data,
                )
            )
        return b"".join(parts)


class _Head:
    """Destination, key and shared headers of a series, packed."""

    __slots__ = ("headers_bytes", "key_bytes", "packed", "route", "shared", "target_bytes")

    def __init__(self, headers: Headers, series: Series) -> None:
        self.shared = pack_headers(headers.shared(series))
        self.headers_bytes = len(self.shared)
        self.route: Route | None = None
        self.packed = b""
        self.target_bytes = self.key_bytes = 0

    def use(self, route: Route) -> None:
        """Pack another destination and key."""
        target, key = route.destination.encode(), route.key.encode()
        self.route = route
        self.target_bytes, self.key_bytes = len(target), len(key)
        self.packed = target + key + self.shared


class RecordReader:
    """Turns log records back into events; records of one series share its object."""

    def __init__(self) -> None:
        self._series: WeakValueDictionary[tuple[object, ...], Series] = WeakValueDictionary()
        """Those with an event somewhere: every request leaves other ones on disk."""
        self._routes: dict[tuple[str, str], Route] = {}

    def events(self, records: Sequence[LogRecord]) -> list[Event]:
        """Return the events of records; EnvelopeError when one holds no readable envelope."""
        now = time.monotonic()
        return [self._event(record, now) for record in records]

    def _event(self, record: LogRecord, now: float) -> Event:
        parsed = parse_event(record.envelope)
        event_id = identity(parsed)
        case = PayloadCase(parsed.WhichOneof("payload") or "")
        name = getattr(parsed, case.value).name if case.is_computed else ""
        meta = dict(parsed.meta)
        meta.pop("data_type", None)
        fields = (case, parsed.exchange, parsed.symbol, name, parsed.source, parsed.origin)
        series = self._known_series(fields, meta)
        headers = unpack_headers(record.packed_headers)
        return Event(
            route=self._known_route(record),
            series=series,
            data=record.envelope,
            event_id=headers.get(EVENT_ID, event_id),
            delivery_id=headers.get(DELIVERY_ID, ""),
            enqueued_at=now,
        )

    def _known_series(self, fields: tuple[object, ...], meta: dict[str, str]) -> Series:
        key = (*fields, *meta.items())
        series = self._series.get(key)
        if series is None:
            case, exchange, symbol, name, source, origin = fields
            series = self._series[key] = Series(
                case=case,  # type: ignore[arg-type]
                exchange=str(exchange),
                symbol=str(symbol),
                name=str(name),
                source=str(source),
                origin=_ORIGINS.get(origin, Origin.REPLAY),
                meta=meta,
            )
        return series

    def _known_route(self, record: LogRecord) -> Route:
        key = (record.target, record.key)
        route = self._routes.get(key)
        if route is None:
            if len(self._routes) >= _KNOWN_ROUTES:
                self._routes.clear()
            route = self._routes[key] = Route(*key)
        return route


_ORIGINS: dict[object, Origin] = {origin.number: origin for origin in Origin}
