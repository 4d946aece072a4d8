"""The bytes of a chunk: what one call appended to a log.

A segment of a chunk log is a sequence of chunks. All integers are unsigned and little-endian:

    4s magic "TMCL" | u8 version (1) | u8 codec (0 none) | u16 flags | u32 context bytes
    | u32 body bytes | u32 events | u64 number | u64 first event | u64 appended (µs since 1970)
    | u32 crc32 of context and body | u32 crc32 of the head before it | context | body

`number` counts the chunks of a log from 1, and `first event` the events before the chunk. Both rise
without gaps, so a reader knows how much an unreadable stretch held. The head has a checksum of its
own: when only the rest is damaged, its size and its number of events are still known.

The context is the MessagePack of a `StreamContext`. The body is the NDJSON that a client got, one
event per line, or, with the flag `RECORDS`, packed records as the files bus has them.
"""

import struct
from enum import IntFlag
from typing import NamedTuple

from isal.isal_zlib import crc32

MAGIC = b"TMCL"
VERSION = 1
CODEC_NONE = 0
MAX_PART_BYTES = 1 << 30
"""A head that claims a larger context or body is damaged, whatever its checksum says."""

_HEAD = struct.Struct("<4sBBHIIIQQQI")
_CHECKSUM = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CHECKSUM.size


class Flags(IntFlag):
    """What is special about a chunk."""

    NONE = 0
    RECORDS = 1
    """The body holds packed records, not lines."""
    LAST = 4
    """The stream ends with it."""


class ChunkHead(NamedTuple):
    """What is known of a chunk without its content."""

    version: int
    codec: int
    flags: Flags
    context_bytes: int
    body_bytes: int
    events: int
    number: int
    first_event: int
    appended_us: int
    checksum: int

    @property
    def total_bytes(self) -> int:
        """Return the size of the whole chunk."""
        return HEAD_BYTES + self.context_bytes + self.body_bytes


def pack_chunk(
    context: bytes,
    body: bytes,
    *,
    events: int,
    number: int,
    first_event: int,
    appended_us: int,
    flags: Flags = Flags.NONE,
) -> list[bytes]:
    """Return the parts of a chunk, to be written one after another."""
    checksum = crc32(body, crc32(context))
    head = _HEAD.pack(
        *(MAGIC, VERSION, CODEC_NONE, flags, len(context), len(body)),
        *(events, number, first_event, appended_us, checksum),
    )
    return [head + _CHECKSUM.pack(crc32(head)), context, body]


def parse_head(data: bytes) -> ChunkHead | None:
    """Return the head that some bytes start with; None when they start with no sound one."""
    if len(data) < HEAD_BYTES or data[:4] != MAGIC:
        return None
    (checksum,) = _CHECKSUM.unpack_from(data, _HEAD.size)
    if crc32(data[: _HEAD.size]) != checksum:
        return None
    _, version, codec, flags, context_bytes, body_bytes, *rest = _HEAD.unpack_from(data)
    if max(context_bytes, body_bytes) > MAX_PART_BYTES:
        return None
    return ChunkHead(version, codec, Flags(flags), context_bytes, body_bytes, *rest)


def is_sound(head: ChunkHead, content: bytes) -> bool:
    """Say whether context and body are what was written."""
    return crc32(content) == head.checksum


def find_head(data: bytes, start: int) -> int:
    """Return where the next sound head begins; the length of the data when there is none."""
    while (found := data.find(MAGIC, start)) >= 0:
        if parse_head(data[found : found + HEAD_BYTES]) is not None:
            return found
        start = found + 1
    return len(data)
