"""Records of Kinesis as rows; those of the Kinesis Producer Library contain many events each."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tardis_machine.buses.kinesis.aggregation import MAGIC, MD5_BYTES
from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.lake.arrow import arrow
from tardis_machine.lake.buses.positions import Lane
from tardis_machine.lake.buses.rows import make_rows

_EVENTS_FIELD = 3
_DATA_FIELD = 3
_LENGTH_DELIMITED = 2
_US = pa.timestamp("us", "UTC")


def events_of(data: bytes) -> list[bytes]:
    """Return the events of a record: what was packed into it, or all of it."""
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + MD5_BYTES:
        return [data]
    body, digest = data[len(MAGIC) : -MD5_BYTES], data[-MD5_BYTES:]
    if hashlib.md5(body, usedforsecurity=False).digest() != digest:
        return [data]
    try:
        packed = [content for number, content in _fields(body) if number == _EVENTS_FIELD]
        return [_data(content) for content in packed]
    except (IndexError, ValueError):
        # Not what the magic promised: kept as it is, and found unreadable later.
        return [data]


def record_rows(lane: Lane, records: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Return records as rows; packed events are numbered within their record."""
    positions: list[str] = []
    times: list[Any] = []
    envelopes: list[bytes] = []
    for record in records:
        events = events_of(record["Data"])
        sequence = record["SequenceNumber"]
        is_packed = record["Data"] is not events[0] if events else True
        positions += (
            [f"{sequence}.{number}" for number in range(len(events))] if is_packed else [sequence]
        )
        times += [record["ApproximateArrivalTimestamp"]] * len(events)
        envelopes += events
    return make_rows(
        KinesisSettings.bus,
        lane,
        arrow.array(positions, pa.string()),
        arrow.array(times, _US),
        arrow.array(envelopes, pa.binary()),
    )


def _data(event: bytes) -> bytes:
    return next((content for number, content in _fields(event) if number == _DATA_FIELD), b"")


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the length-delimited fields of a Protobuf message."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        length, place = _varint(message, place)
        if tag & 7 == _LENGTH_DELIMITED:
            if place + length > len(message):
                raise ValueError("a field exceeds the length of its message")
            yield tag >> 3, message[place : place + length]
            place += length
        elif tag & 7:
            raise ValueError("unknown wire type")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
