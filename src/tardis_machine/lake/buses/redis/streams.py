"""Entries and states of Redis streams as a server describes them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from tardis_machine.lake.arrow import Values, arrow
from tardis_machine.lake.arrow import kernels as pc
from tardis_machine.lake.buses.client import Span
from tardis_machine.lake.buses.positions import Lane, Position
from tardis_machine.lake.buses.rows import make_rows
from tardis_machine.lake.errors import BusError

MIN_VERSION = "7.0"

_MAX_SEQUENCE = 2**64 - 1
_MS = pa.timestamp("ms", "UTC")
_LAST_MS = 253_402_300_799_999


class EntryId(NamedTuple):
    """Id of an entry: milliseconds since 1970, and a number within the millisecond."""

    milliseconds: int
    sequence: int

    @classmethod
    def parse(cls, text: str) -> "EntryId":
        """Read `<milliseconds>-<number>`."""
        milliseconds, _, sequence = text.partition("-")
        return cls(int(milliseconds), int(sequence))

    def __str__(self) -> str:
        return f"{self.milliseconds}-{self.sequence}"

    @property
    def previous(self) -> "EntryId":
        """Return the id right before."""
        if self.sequence:
            return EntryId(self.milliseconds, self.sequence - 1)
        return EntryId(self.milliseconds - 1, _MAX_SEQUENCE) if self.milliseconds else self


class StreamState(NamedTuple):
    """Properties of a stream."""

    length: int
    added: int
    first: EntryId
    last: EntryId
    max_deleted: EntryId

    @classmethod
    def parse(cls, reply: Sequence[Any]) -> "StreamState":
        """Read the reply to XINFO STREAM."""
        facts = dict(zip(reply[::2], reply[1::2], strict=True))
        if b"entries-added" not in facts:
            raise BusError(f"Reading from Redis requires server version {MIN_VERSION} or newer.")
        names = (b"recorded-first-entry-id", b"last-generated-id", b"max-deleted-entry-id")
        ids = [EntryId.parse(facts[name].decode()) for name in names]
        return cls(facts[b"length"], facts[b"entries-added"], *ids)

    @property
    def span(self) -> Span:
        """Return what there is to read."""
        before = self.first.previous if self.length else self.last
        return Span(self._position(before, self.removed), self._position(self.last, self.added))

    @property
    def removed(self) -> int:
        """Return how many entries were trimmed or deleted."""
        return self.added - self.length

    def _position(self, entry: EntryId, added: int) -> Position:
        return {"id": str(entry), "added": added, "deleted": str(self.max_deleted)}

    def is_gone_after(self, entry: EntryId) -> bool:
        """Say whether everything up to an entry was trimmed, and perhaps more."""
        return not self.length or self.first > entry


def entry_rows(bus: str, lane: Lane, entries: Sequence[Any], data_field: bytes) -> pa.RecordBatch:
    """Return entries as rows; one without the field has no envelope."""
    ids = arrow.array([entry[0] for entry in entries], pa.string())
    # Producers write the fields of all entries in the same order.
    place = _place(entries[0][1], data_field) if entries else 0
    envelopes = [
        fields[place + 1]
        if len(fields) > place and fields[place] == data_field
        else _value(fields, data_field)
        for _, fields in entries
    ]
    return make_rows(bus, lane, ids, _times(ids), arrow.array(envelopes, pa.binary()))


def _place(fields: Sequence[bytes], name: bytes) -> int:
    return next((place for place in range(0, len(fields), 2) if fields[place] == name), 0)


def _value(fields: Sequence[bytes], name: bytes) -> bytes | None:
    places = (place for place in range(0, len(fields), 2) if fields[place] == name)
    return next((fields[place + 1] for place in places), None)


def _times(ids: Values) -> Values:
    """Return the times in ids; producers that number entries themselves may write any number."""
    numbers = pc.list_element(pc.split_pattern(ids, "-"), 0).cast(pa.uint64())
    is_time = pc.less_equal(numbers, pa.scalar(_LAST_MS, pa.uint64()))
    return pc.if_else(is_time, numbers, None).cast(pa.int64()).cast(_MS)
