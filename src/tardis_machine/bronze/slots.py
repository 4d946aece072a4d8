"""Series of one stream with what their events need to be written, by the fields of records."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from msgspec import UNSET

from tardis_machine.bronze.cases import PayloadCase, snapshot_case
from tardis_machine.bronze.content import COMPLETE, FIRST_VERSION, Content
from tardis_machine.bronze.event_writers import EventWriter
from tardis_machine.bronze.series import Origin, Series
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.records import Record

_SERIES_CAPACITY = 65_536
_KEY_FIELDS = ("exchange", "symbol", "name", "grouping")


@dataclass(frozen=True, slots=True)
class Stream:
    """What all series of one encoder share."""

    source: str
    origin: Origin
    meta: dict[str, str]
    writers: dict[PayloadCase, EventWriter]
    contents: Mapping[str, Content]


@dataclass(frozen=True, slots=True)
class Slot:
    """A series with what its events need to be written."""

    series: Series
    label: str
    head: bytes
    writer: EventWriter | None
    """None: its records are only counted."""
    partial: "Slot | None" = None
    """Takes its place while records may lack what came before the start of the stream."""
    partial_us: tuple[int, int] = (0, 0)
    """From when until when, by local time, that is."""

    def at(self, local_us: int) -> "Slot":
        """Return what holds the records of a time."""
        start_us, end_us = self.partial_us
        return self.partial if self.partial and start_us <= local_us < end_us else self


class Slots(dict[Any, Slot]):
    """The series of one record type, by the fields that tell them apart.

    At least the last `_SERIES_CAPACITY` series are kept and at most twice as many.
    """

    def __init__(self, record_type: type[Record], stream: Stream) -> None:
        self._type = record_type
        self._stream = stream
        self._older: dict[Any, Slot] = {}
        self._fields = [name for name in _KEY_FIELDS if name in record_type.__struct_fields__]
        self.key = attrgetter(*self._fields)

    def __missing__(self, key: Any) -> Slot:
        slot = self._older.get(key) or self._open(key)
        if len(self) >= _SERIES_CAPACITY:
            self._older = dict(self)
            self.clear()
        self[key] = slot
        return slot

    def _open(self, key: Any) -> Slot:
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
        slot = Slot(series, series.label, _head(series), writer)
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
