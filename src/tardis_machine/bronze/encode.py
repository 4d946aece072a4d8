"""Records to envelopes, a list at a time.

An envelope is written as three concatenated parts, which Protobuf reads as one message: what its
series shares (encoded once per series), the ingest time (once per list), and the event itself.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import UNSET

from tardis_machine.bronze.cases import AnyCase, PayloadCase, snapshot_case
from tardis_machine.bronze.content import COMPLETE, FIRST_VERSION, NO_CONTENTS, Content
from tardis_machine.bronze.envelope import Envelope
from tardis_machine.bronze.event_writers import EventWriter
from tardis_machine.bronze.ordinals import Ordinals
from tardis_machine.bronze.series import Origin, Series
from tardis_machine.bronze.times import time_reader
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.records import EncodedBookChange, EncodedBookSnapshot, Record
from tardis_machine.model.time import SECOND_US

OnReject: TypeAlias = Callable[[int, EnvelopeError], None]

_EVENTS_PER_MESSAGE = 4096
_SERIES_CAPACITY = 65_536
_KEY_FIELDS = ("exchange", "symbol", "name", "grouping")


def refuse(_: int, error: EnvelopeError) -> None:
    """Stop at the first record that cannot be encoded."""
    raise error


class Encoder:
    """Encodes the records of one stream.

    Args:
        source: Id of the producer.
        origin: How the records came to the producer.
        meta: Ingest metadata of the stream; `data_type` is added per series.
        cases: Payload cases to encode; records of others are counted for ordinals only.
        ordinals: Counts of the records before; none by default.
        contents: How the records were made, by exchange; by default they are complete.
    """

    def __init__(
        self,
        source: str,
        origin: Origin,
        meta: Mapping[str, str] | None = None,
        *,
        cases: Collection[PayloadCase] = frozenset(PayloadCase),
        ordinals: Ordinals | None = None,
        contents: Mapping[str, Content] = NO_CONTENTS,
    ) -> None:
        self.ordinals = ordinals or Ordinals()
        self.left_out: Counter[AnyCase] = Counter()
        """Records of other cases, since somebody emptied it."""
        self._read_time = time_reader()
        self._writers = {case: EventWriter(case, self._read_time) for case in cases}
        self._events_in_messages = 0
        stream = _Stream(source, origin, dict(meta or {}), self._writers, contents)
        types = {case.record_type for case in PayloadCase}
        types |= {EncodedBookChange, EncodedBookSnapshot}
        self._slots = {record_type: _Slots(record_type, stream) for record_type in types}

    def encode(self, records: Sequence[NormalizedRecord], ingest_us: int) -> list[Envelope]:
        """Encode records in their order; EnvelopeError at the first that does not fit.

        Args:
            records: of the stream.
            ingest_us: the time now.
        """
        return [each for each in self.encode_each(records, ingest_us, refuse) if each is not None]

    def encode_each(
        self, records: Sequence[NormalizedRecord], ingest_us: int, on_reject: OnReject
    ) -> list[Envelope | None]:
        """Encode records in their order: one envelope for each, None where there is none.

        Args:
            records: of the stream.
            ingest_us: the time now.
            on_reject: called with the place of a record that does not fit into an envelope.
        """
        stamp = _ingest_stamp(ingest_us)
        envelopes: list[Envelope | None] = []
        for start in range(0, len(records), _EVENTS_PER_MESSAGE):
            block = records[start : start + _EVENTS_PER_MESSAGE]
            self._renew_messages(len(block))
            self._encode_block(block, stamp, envelopes, on_reject)
        return envelopes

    def _renew_messages(self, count: int) -> None:
        self._events_in_messages += count
        if self._events_in_messages > _EVENTS_PER_MESSAGE:
            self._events_in_messages = count
            for writer in self._writers.values():
                writer.renew()

    def _encode_block(
        self,
        records: Iterable[NormalizedRecord],
        stamp: bytes,
        envelopes: list[Envelope | None],
        on_reject: OnReject,
    ) -> None:
        slots_of, read_time, ordinals = self._slots, self._read_time, self.ordinals
        append = envelopes.append
        # The records of one message stand together and have the same local time.
        local_text, local, local_us = None, (0, 0, 0), 0
        counts: dict[str, int] = {}
        for record in records:
            try:
                slots = slots_of[type(record)]
                slot = slots[slots.key(record)]
                if record.local_timestamp != local_text:
                    local = read_time(record.local_timestamp)
                    local_us = local[0] * SECOND_US + local[1] // 1000
                    local_text = record.local_timestamp
                    counts = ordinals.at(local_us)
                label = slot.label
                ordinal = counts.get(label, 0)
                counts[label] = ordinal + 1
                if slot.writer is None:
                    self.left_out[slot.series.case] += 1
                    append(None)
                    continue
                body = slot.writer.write(record, local, ordinal)
                if slot.partial is not None:
                    slot = slot.at(local_us)
            except (ValueError, TypeError, LookupError, OverflowError) as error:
                on_reject(len(envelopes), _rejection(record, error))
                append(None)
                continue
            append(Envelope(slot.series, local_us, ordinal, slot.head + stamp + body))


@dataclass(frozen=True, slots=True)
class _Stream:
    """What all series of one encoder share."""

    source: str
    origin: Origin
    meta: dict[str, str]
    writers: dict[PayloadCase, EventWriter]
    contents: Mapping[str, Content]


@dataclass(frozen=True, slots=True)
class _Slot:
    """A series with what its events need to be written."""

    series: Series
    label: str
    head: bytes
    writer: EventWriter | None
    """None: its records are only counted."""
    partial: "_Slot | None" = None
    """Takes its place while records may lack what came before the start of the stream."""
    partial_us: tuple[int, int] = (0, 0)
    """From when until when, by local time, that is."""

    def at(self, local_us: int) -> "_Slot":
        """Return what holds the records of a time."""
        start_us, end_us = self.partial_us
        return self.partial if self.partial and start_us <= local_us < end_us else self


class _Slots(dict[Any, _Slot]):
    """The series of one record type, by the fields that tell them apart.

    At least the last `_SERIES_CAPACITY` series are kept and at most twice as many.
    """

    def __init__(self, record_type: type[Record], stream: _Stream) -> None:
        self._type = record_type
        self._stream = stream
        self._older: dict[Any, _Slot] = {}
        self._fields = [name for name in _KEY_FIELDS if name in record_type.__struct_fields__]
        self.key = attrgetter(*self._fields)

    def __missing__(self, key: Any) -> _Slot:
        slot = self._older.get(key) or self._open(key)
        if len(self) >= _SERIES_CAPACITY:
            self._older = dict(self)
            self.clear()
        self[key] = slot
        return slot

    def _open(self, key: Any) -> _Slot:
        values = key if isinstance(key, tuple) else (key,)
        fields = dict(zip(self._fields, values, strict=True))
        case = self._case(fields)
        writer = self._stream.writers.get(case)
        content = self._stream.contents.get(fields["exchange"], COMPLETE)
        series = Series(
            case=case,
            exchange=fields["exchange"],
            symbol=fields.get("symbol", ""),
            name=fields.get("name", ""),
            source=self._stream.source,
            origin=self._stream.origin,
            meta=self._stream.meta,
            mapper_version=content.mapper_version,
            recorder=content.recorder,
        )
        slot = _Slot(series, series.label, _head(series), writer)
        partial_us = content.partial_us.get(case)
        if partial_us is None:
            return slot
        partial = replace(series, state_from_us=content.state_from_us)
        partial_slot = replace(slot, series=partial, head=_head(partial))
        return replace(slot, partial=partial_slot, partial_us=partial_us)

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
        recorder=series.recorder,
    )
    if series.mapper_version != FIRST_VERSION:
        event.mapper_version = series.mapper_version
    if series.state_from_us is not None:
        event.state_from.FromMicroseconds(series.state_from_us)
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
