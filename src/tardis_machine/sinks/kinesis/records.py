"""Events as Kinesis records.

Kinesis has no headers. What other buses put there is appended to the `meta` map of the envelope:
Protobuf reads concatenated fields as one message, so the encoded bytes stay as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tardis_machine.bronze.series import PerSeries, Series
from tardis_machine.buses.kinesis.aggregation import aggregate, event_bytes, overhead_bytes, varint
from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import DEAD_LETTER_ERROR, DEAD_LETTER_REASON
from tardis_machine.sinks.kinesis.shards import hash_key_of

DELIVERY_ID = "delivery_id"

_SHORT_BYTES = 100
_CACHED_KEYS = 131_072
_META_TAG = b"\x4a"
_KEY_TAG = b"\x0a"
_VALUE_TAG = b"\x12"


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record of a call, and the places of its events in the batch."""

    places: Sequence[int]
    entry: Mapping[str, Any]
    """As the client takes it."""
    size_bytes: int
    hash_key: int


@dataclass(slots=True, frozen=True)
class _Head:
    """What all events of a series share."""

    suffix: bytes
    explicit_hash_key: str | None


class RecordMaker:
    """Makes records of events."""

    def __init__(self, settings: KinesisSettings) -> None:
        self._static = dict(settings.static_headers)
        self._pins_symbols = settings.explicit_hash_key == "symbol"
        self._packs = settings.aggregation == "kpl"
        self._pack_bytes = settings.aggregation_max_bytes
        self._heads: PerSeries[_Head] = PerSeries(self._head)
        self._hash_keys: dict[str, int] = {}

    def data(self, event: Event) -> bytes:
        """Return the envelope with what would be headers elsewhere."""
        suffix: bytes = event.series.derived[self._heads].suffix
        text = event.delivery_id.encode()
        size = len(text)
        if size > _SHORT_BYTES:
            return event.data + suffix + meta_entry(DELIVERY_ID, event.delivery_id)
        # Both lengths fit one byte: the usual case, for every event.
        end = b"\x4a%c\x0a\x0bdelivery_id\x12%c%b" % (size + 15, size, text)
        return event.data + suffix + end

    def record(self, place: int, event: Event, data: bytes) -> Record:
        """Return the record of one event."""
        return self._record([place], event, data)

    def packed(self, members: Sequence[tuple[int, Event, bytes]]) -> Iterator[Record]:
        """Return records that each hold as many events of one key as fit."""
        if not self._packs:
            yield from self._singles(members)
            return
        pack: list[tuple[int, Event, bytes]] = []
        size = start = self._start_bytes(members[0][1])
        for member in members:
            added = event_bytes(member[2])
            if pack and size + added > self._pack_bytes:
                yield self._pack(pack)
                pack, size = [], start
            pack.append(member)
            size += added
        yield self._pack(pack)

    def _singles(self, members: Sequence[tuple[int, Event, bytes]]) -> Iterator[Record]:
        """Return a record for each event of one key."""
        if self._pins_symbols:
            return (self.record(place, event, data) for place, event, data in members)
        key = members[0][1].route.key
        hash_key, added = self._hash_key(key), key_bytes(key)
        return (
            Record((place,), {"Data": data, "PartitionKey": key}, len(data) + added, hash_key)
            for place, _, data in members
        )

    def _start_bytes(self, event: Event) -> int:
        return overhead_bytes(event.route.key, self._heads[event.series].explicit_hash_key)

    def _pack(self, members: Sequence[tuple[int, Event, bytes]]) -> Record:
        _, event, data = members[0]
        places = [place for place, _, _ in members]
        if len(members) == 1 and self._start_bytes(event) + event_bytes(data) > self._pack_bytes:
            return self._record(places, event, data)
        hash_key = self._heads[event.series].explicit_hash_key
        datas = (data for _, _, data in members)
        return self._record(places, event, aggregate(event.route.key, hash_key, datas))

    def _record(self, places: Sequence[int], event: Event, data: bytes) -> Record:
        key = event.route.key
        explicit = self._heads[event.series].explicit_hash_key
        size = len(data) + key_bytes(key)
        if explicit is None:
            entry = {"Data": data, "PartitionKey": key}
            return Record(places, entry, size, self._hash_key(key))
        entry = {"Data": data, "PartitionKey": key, "ExplicitHashKey": explicit}
        return Record(places, entry, size, int(explicit))

    def _hash_key(self, key: str) -> int:
        found = self._hash_keys.get(key)
        if found is None:
            if len(self._hash_keys) >= _CACHED_KEYS:
                self._hash_keys.clear()
            found = self._hash_keys[key] = hash_key_of(key)
        return found

    def _head(self, series: Series) -> _Head:
        why = (DEAD_LETTER_REASON, DEAD_LETTER_ERROR)
        entries = {name: series.meta[name] for name in why if name in series.meta}
        taken = {*series.meta, "data_type"}
        entries |= {name: value for name, value in self._static.items() if name not in taken}
        suffix = b"".join(meta_entry(name, value) for name, value in entries.items())
        pin = None
        if self._pins_symbols:
            pin = str(hash_key_of(f"{series.exchange}|{series.symbol}"))
        return _Head(suffix, pin)


def key_bytes(key: str) -> int:
    """Return the size of a partition key, as the service counts it."""
    return len(key) if key.isascii() else len(key.encode())


def meta_entry(name: str, value: str) -> bytes:
    """Return one entry of the envelope's `meta` map as Protobuf writes it."""
    key, text = name.encode(), value.encode()
    entry = b"".join((_KEY_TAG, varint(len(key)), key, _VALUE_TAG, varint(len(text)), text))
    return _META_TAG + varint(len(entry)) + entry
