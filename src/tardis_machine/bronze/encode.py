"""Records to envelopes, a list at a time.

An envelope is written as three concatenated parts, which Protobuf reads as one message: what its
series shares (encoded once per series), the ingest time (once per list), and the event itself.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import UNSET

from tardis_machine.bronze.cases import PayloadCase, snapshot_case
from tardis_machine.bronze.envelope import Envelope
from tardis_machine.bronze.event_writers import EventWriter
from tardis_machine.bronze.ordinals import Ordinals
from tardis_machine.bronze.series import Origin, Series
from tardis_machine.bronze.times import time_reader
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.records import EncodedBookSnapshot, Record
from tardis_machine.model.time import SECOND_US

OnReject: TypeAlias = Callable[[NormalizedRecord, EnvelopeError], None]

_EVENTS_PER_MESSAGE = 4096
_SERIES_CAPACITY = 65_536
_KEY_FIELDS = ("exchange", "symbol", "name", "grouping")


def _refuse(_: NormalizedRecord, error: EnvelopeError) -> None:
    """Stop at the first record that cannot be encoded."""
    raise error


class Encoder:
    """Encodes the records of one stream.

    Args:
        source: Id of the producer.
        origin: How the records came to the producer.
        meta: Ingest metadata of the stream; `data_type` is added per series.
        cases: Payload cases to encode; records of others are skipped.
        on_reject: Called with a record that cannot be encoded; by default its error is raised.
    """

    def __init__(
        self,
        source: str,
        origin: Origin,
        meta: Mapping[str, str] | None = None,
        *,
        cases: Collection[PayloadCase] = frozenset(PayloadCase),
        on_reject: OnReject = _refuse,
    ) -> None:
        self._on_reject = on_reject
        self._ordinals = Ordinals()
        self._read_time = time_reader()
        self._writers = {case: EventWriter(case, self._read_time) for case in cases}
        self._events_in_messages = 0
        stream = _Stream(source, origin, dict(meta or {}), self._writers)
        types = {case.record_type for case in PayloadCase} | {EncodedBookSnapshot}
        self._slots = {record_type: _Slots(record_type, stream) for record_type in types}

    def encode(self, records: Sequence[NormalizedRecord], ingest_us: int) -> list[Envelope]:
        """Encode records in their order; `ingest_us` is the time now."""
        stamp = _ingest_stamp(ingest_us)
        envelopes: list[Envelope] = []
        for start in range(0, len(records), _EVENTS_PER_MESSAGE):
            block = records[start : start + _EVENTS_PER_MESSAGE]
            self._renew_messages(len(block))
            self._encode_block(block, stamp, envelopes)
        return envelopes

    def _renew_messages(self, count: int) -> None:
        self._events_in_messages += count
        if self._events_in_messages > _EVENTS_PER_MESSAGE:
            self._events_in_messages = count
            for writer in self._writers.values():
                writer.renew()

    def _encode_block(
        self, records: Iterable[NormalizedRecord], stamp: bytes, envelopes: list[Envelope]
    ) -> None:
        slots_of, read_time, next_ordinal = self._slots, self._read_time, self._ordinals.next
        append = envelopes.append
        # The records of one message stand together and have the same local time.
        local_text, local, local_us = None, (0, 0, 0), 0
        for record in records:
            try:
                slots = slots_of[type(record)]
                slot = slots[slots.key(record)]
                if slot is None:
                    continue
                if record.local_timestamp != local_text:
                    local = read_time(record.local_timestamp)
                    local_us = local[0] * SECOND_US + local[1] // 1000
                    local_text = record.local_timestamp
                ordinal = next_ordinal((slot.label, local_us))
                body = slot.writer.write(record, local, ordinal)
            except (ValueError, TypeError, LookupError, OverflowError) as error:
                self._on_reject(record, _rejection(record, error))
                continue
            append(Envelope(slot.series, local_us, ordinal, slot.head + stamp + body))


@dataclass(frozen=True, slots=True)
class _Stream:
    """What all series of one encoder share."""

    source: str
    origin: Origin
    meta: dict[str, str]
    writers: dict[PayloadCase, EventWriter]


@dataclass(frozen=True, slots=True)
class _Slot:
    """A series with what its events need to be written."""

    series: Series
    label: str
    head: bytes
    writer: EventWriter


class _Slots(dict[Any, _Slot | None]):
    """The series of one record type, by the fields that tell them apart; None: not encoded.

    At least the last `_SERIES_CAPACITY` series are kept and at most twice as many.
    """

    def __init__(self, record_type: type[Record], stream: _Stream) -> None:
        self._type = record_type
        self._stream = stream
        self._older: dict[Any, _Slot | None] = {}
        self._fields = [name for name in _KEY_FIELDS if name in record_type.__struct_fields__]
        self.key = attrgetter(*self._fields)

    def __missing__(self, key: Any) -> _Slot | None:
        slot = self._older.get(key) or self._open(key)
        if len(self) >= _SERIES_CAPACITY:
            self._older = dict(self)
            self.clear()
        self[key] = slot
        return slot

    def _open(self, key: Any) -> _Slot | None:
        values = key if isinstance(key, tuple) else (key,)
        fields = dict(zip(self._fields, values, strict=True))
        case = self._case(fields)
        writer = self._stream.writers.get(case)
        if writer is None:
            return None
        series = Series(
            case=case,
            exchange=fields["exchange"],
            symbol=fields.get("symbol", ""),
            name=fields.get("name", ""),
            source=self._stream.source,
            origin=self._stream.origin,
            meta=self._stream.meta,
        )
        return _Slot(series, series.label, _head(series), writer)

    def _case(self, fields: Mapping[str, Any]) -> PayloadCase:
        if "grouping" in fields:
            return snapshot_case(fields["name"], is_grouped=fields["grouping"] is not UNSET)
        return PayloadCase(str(self._type.__struct_config__.tag))


def _head(series: Series) -> bytes:
    """Encode what all events of a series have in common."""
    event = pb.NormalizedEvent(
        source=series.source,
        exchange=series.exchange,
        symbol=series.symbol,
        origin=series.origin.number,
        meta={**series.meta, "data_type": series.data_type},
    )
    return event.SerializeToString(deterministic=True)


def _ingest_stamp(ingest_us: int) -> bytes:
    """Encode the ingest time."""
    event = pb.NormalizedEvent()
    seconds, rest = divmod(ingest_us, SECOND_US)
    event.ingest_ts.seconds = seconds
    event.ingest_ts.nanos = rest * 1000
    return event.SerializeToString()


def _rejection(record: NormalizedRecord, error: Exception) -> EnvelopeError:
    """Say which record does not fit into an envelope, and why."""
    where = getattr(record, "exchange", ""), getattr(record, "symbol", "")
    return EnvelopeError(
        f"{type(record).__name__} of {':'.join(where)} cannot be encoded: "
        f"{type(error).__name__}: {error}"
    )
