"""What a server and its publisher process say to each other over a Unix socket.

Every frame has a header (payload length, kind, stream, sequence) and a payload. `LINES` carries the
very bytes that a client gets; the publisher answers with `ACK` once all their events are delivered,
safe on disk, or given up and counted.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

import msgspec

from tardis_machine.bronze.series import Origin
from tardis_machine.sinks.status import BusStatus

HEADER = struct.Struct("<IBQQ")
_SEQUENCES = struct.Struct("<Q")
_LOCAL_TIME = b'"localTimestamp":"'


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 1
    """First on a connection: `Hello`."""
    OPEN = 2
    """A stream begins, or goes on after the publisher was restarted: `StreamContext`."""
    LINES = 3
    """Records as NDJSON."""
    PRIME = 4
    """Lines that were acknowledged before: they only count for the ordinals of those after them."""
    CLOSE = 5
    """A stream has ended."""
    RECORDS = 6
    """Packed log records to be sent again: `Redrive`."""
    LOST = 7
    """So many events were lost before they reached the publisher: a number."""
    BYE = 8
    """Nothing more will come on this connection."""
    ACK = 9
    """To the server: these sequences are settled."""
    STATUS = 10
    """To the server: `Status`."""


class Frame(NamedTuple):
    """One frame as it was read."""

    kind: Kind
    stream: int
    sequence: int
    payload: bytes | bytearray


class Hello(msgspec.Struct, frozen=True):
    """How much a server keeps for the publisher."""

    window_bytes: int


class StreamContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the events of one stream have in common."""

    producer_id: str
    origin: Origin
    meta: dict[str, str]
    waits: bool = False
    """Never drop: wait for room however long it takes."""


class Redrive(msgspec.Struct, frozen=True):
    """Events to be sent again."""

    records: bytes
    """Packed as in a log."""
    bus: str = ""
    """The bus they were for, under their old destination; empty: every bus, routed anew."""


class Status(msgspec.Struct, frozen=True):
    """How publishing is doing."""

    buses: dict[str, BusStatus]
    metrics: bytes
    """In the Prometheus text format."""


def pack_sequences(sequences: list[int]) -> bytes:
    """Return the payload of an `ACK`."""
    return struct.pack(f"<{len(sequences)}Q", *sequences)


def unpack_sequences(payload: bytes | bytearray) -> tuple[int, ...]:
    """Return what an `ACK` acknowledges."""
    return struct.unpack(f"<{len(payload) // _SEQUENCES.size}Q", payload)


def tail_of(lines: bytes) -> bytes:
    """Return the last lines that share their local time.

    Records of the next chunk may share it too, and their ordinals count on from these.
    """
    found = lines.rfind(_LOCAL_TIME)
    if found < 0:
        return b""
    mark = lines[found : lines.find(b'"', found + len(_LOCAL_TIME)) + 1]
    start = len(lines)
    while start > 0:
        previous = lines.rfind(b"\n", 0, start - 1) + 1
        if mark not in lines[previous:start]:
            break
        start = previous
    return lines[start:]
