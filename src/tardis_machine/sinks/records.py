"""Events to log records and back."""

import itertools
import struct
import uuid
from collections.abc import Iterable, Mapping
from weakref import WeakValueDictionary

from tardis_machine.bronze.cases import AnyCase, NewerCase, PayloadCase
from tardis_machine.bronze.content import FIRST_VERSION
from tardis_machine.bronze.decode import UnknownPayloadError, missing_payload
from tardis_machine.bronze.envelope import identity, parse_event, state_from_us
from tardis_machine.bronze.routing import Route
from tardis_machine.bronze.series import Origin, PerSeries, Series
from tardis_machine.buses.files.log import RECORD_HEADER, LogRecord, pack_headers, unpack_headers
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import (
    DATA_TYPE,
    DELIVERY_ID,
    EVENT_ID,
    PAYLOAD_CASE,
    Headers,
)

_EVENT_ID = struct.Struct("<HI7s")
_DELIVERY_ID = struct.Struct("<HI10s")
_IDS_BYTES = _EVENT_ID.size + _DELIVERY_ID.size
_LENGTH = slice(2, 6)
"""Where a header says how long its value is."""
_SERIES = "series"
"""Tells the series of a spool from all others: who knows it need not read the envelope."""
_KNOWN_ROUTES = 16_384


class RecordPacker:
    """Packs events as log records; what a series shares is packed once.

    Args:
        headers: of every record, behind its two ids.
        names_series: add a header that names the series, for our own reader.
    """

    def __init__(self, headers: Headers, *, names_series: bool = False) -> None:
        self._headers = headers
        self._names = map(f"{uuid.uuid4().hex}-{{}}".format, itertools.count())
        self._names_series = names_series
        self._heads: PerSeries[_Head] = PerSeries(self._head)

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
                        ids_bytes + head.headers_bytes,
                        len(data),
                    ),
                    head.address,
                    event_head(7, len(event_id), b"eventId"),
                    event_id,
                    delivery_head(10, len(delivery_id), b"deliveryId"),
                    delivery_id,
                    head.headers,
                    data,
                )
            )
        return b"".join(parts)

    def _head(self, series: Series) -> "_Head":
        headers = dict(self._headers.shared(series))
        if self._names_series:
            headers[_SERIES] = next(self._names)
        return _Head(pack_headers(headers))


class _Head:
    """Destination, key and headers that the events of a series share, packed."""

    __slots__ = ("address", "headers", "headers_bytes", "key_bytes", "route", "target_bytes")

    def __init__(self, headers: bytes) -> None:
        self.headers = headers
        self.headers_bytes = len(headers)
        self.route: Route | None = None
        self.address = b""
        self.target_bytes = self.key_bytes = 0

    def use(self, route: Route) -> None:
        """Pack another destination and key."""
        target, key = route.destination.encode(), route.key.encode()
        self.route = route
        self.target_bytes, self.key_bytes = len(target), len(key)
        self.address = target + key


class RecordReader:
    """Turns log records back into events; records of one series share its object.

    Args:
        names_series: whether the packer did so. Then an envelope is read once per series, which is
            a ninth of the work.
    """

    def __init__(self, *, names_series: bool = False) -> None:
        self._names_series = names_series
        self._series: WeakValueDictionary[tuple[object, ...], Series] = WeakValueDictionary()
        """Those with an event somewhere: every request leaves other ones on disk."""
        self._named: WeakValueDictionary[bytes, Series] = WeakValueDictionary()
        """The same by the headers that all records of a series end with, their name among them."""
        self._routes: dict[tuple[str, str], Route] = {}

    def event(self, record: LogRecord) -> Event:
        """Return the event of a record; EnvelopeError when it holds no readable envelope."""
        packed = record.packed_headers
        # Slices of anything else lead nowhere: no other record ends with such headers.
        middle = _EVENT_ID.size + int.from_bytes(packed[_LENGTH], "little")
        end = middle + _DELIVERY_ID.size
        end += int.from_bytes(packed[middle + 2 : middle + 6], "little")
        shared = packed[end:]
        series = self._named.get(shared)
        if series is None:
            return self._read(record, shared)
        return Event(
            self._known_route(record),
            series,
            record.envelope,
            packed[_EVENT_ID.size : middle].decode(),
            packed[middle + _DELIVERY_ID.size : end].decode(),
            0.0,
        )

    def _read(self, record: LogRecord, shared: bytes) -> Event:
        """Read the envelope of a record whose series is not known by name."""
        parsed = parse_event(record.envelope)
        headers = unpack_headers(record.packed_headers)
        case: AnyCase
        if (payload := parsed.WhichOneof("payload")) is None:
            case, name, event_id = _newer_case(missing_payload(parsed), headers), "", ""
        else:
            case, event_id = PayloadCase(payload), identity(parsed)
            name = getattr(parsed, payload).name if case.is_computed else ""
        meta = dict(parsed.meta)
        meta.pop("data_type", None)
        origin = _ORIGINS.get(parsed.origin, Origin.REPLAY)
        who = case, parsed.exchange, parsed.symbol, name, parsed.source, origin
        version, state_us = parsed.mapper_version or FIRST_VERSION, state_from_us(parsed)
        made = version, state_us, parsed.recorder
        key = (*who, *made, *meta.items())
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series(*who, meta, *made)
        if self._names_series and _SERIES in headers:
            self._named[shared] = series
        return Event(
            route=self._known_route(record),
            series=series,
            data=record.envelope,
            event_id=headers.get(EVENT_ID, event_id),
            delivery_id=headers.get(DELIVERY_ID, ""),
            accepted_at=0.0,
        )

    def _known_route(self, record: LogRecord) -> Route:
        key = (record.destination, record.key)
        route = self._routes.get(key)
        if route is None:
            if len(self._routes) >= _KNOWN_ROUTES:
                self._routes.clear()
            route = self._routes[key] = Route(*key)
        return route


def _newer_case(error: EnvelopeError, headers: Mapping[str, str]) -> NewerCase:
    """Return what a newer version said of a payload, which is passed on as it is."""
    if not isinstance(error, UnknownPayloadError) or not headers.get(EVENT_ID):
        raise error
    case = headers.get(PAYLOAD_CASE, f"field{error.number}")
    return NewerCase(case, headers.get(DATA_TYPE, case))


_ORIGINS: dict[object, Origin] = {origin.number: origin for origin in Origin}
