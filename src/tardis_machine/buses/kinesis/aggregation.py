"""The aggregated records of the Kinesis Producer Library: many events in one Kinesis record.

A record is four magic bytes, a Protobuf message and the MD5 of that message. The message holds a
table of partition keys (field 1), one of explicit hash keys (field 2) and the events (field 3),
each with the places of its keys in the tables (fields 1 and 2) and its data (field 3). All events
of one record have the same key here, so both tables have one entry.
"""

import hashlib
from collections.abc import Iterable

MAGIC = b"\xf3\x89\x9a\xc2"
MD5_BYTES = 16

_FRAME_BYTES = 8
"""Tags and lengths around the data of one event, at most."""


def aggregate(key: str, hash_key: str | None, datas: Iterable[bytes]) -> bytes:
    """Return one record that holds the data of several events with the same key."""
    index = b"\x08\x00"
    parts = [_field(1, key.encode())]
    if hash_key is not None:
        index = b"\x08\x00\x10\x00"
        parts.append(_field(2, hash_key.encode()))
    for data in datas:
        size = varint(len(data))
        parts += (
            b"\x1a",
            varint(len(index) + 1 + len(size) + len(data)),
            index,
            b"\x1a",
            size,
            data,
        )
    body = b"".join(parts)
    return MAGIC + body + hashlib.md5(body, usedforsecurity=False).digest()


def overhead_bytes(key: str, hash_key: str | None) -> int:
    """Return how much a record is larger than its events, at most."""
    names = len(key.encode()) + len(hash_key or "")
    return len(MAGIC) + MD5_BYTES + names + 2 * _FRAME_BYTES


def event_bytes(data: bytes) -> int:
    """Return how much an event adds to a record, at most."""
    return len(data) + 2 * _FRAME_BYTES


def varint(number: int) -> bytes:
    """Return a number as Protobuf writes it."""
    if number < 128:
        return bytes((number,))
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(content)) + content
