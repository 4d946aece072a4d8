"""Append-only log on disk: the files bus and the spool; this module reads and writes its bytes.

A log is a directory of segments with rising numbers:

    00000000000000000001.log     closed: complete, flushed to disk, never changed again
    00000000000000000002.open    being written; becomes .log by a rename
    durable                      how far readers may go, see `durable_end`
    id                           tells this log from others of its name, see `buses.files.ids`
    lock                         held (flock) by the one process that writes

The files bus numbers its segments from 1 without gaps and removes only its oldest ones (retention).
So a number that is missing is a segment that was removed, and its events are lost to a reader that
had not come to its end. The spool removes any segment whose events are settled, and leaves gaps:
there a missing number says nothing.

A segment is a sequence of blocks. All integers are unsigned and little-endian:

    u8 version (1) | u8 codec (0 none, 1 zstd) | u32 length | u32 crc32 | payload of `length` bytes

The checksum covers the payload as stored. The payload, decompressed, is a sequence of records:

    u16 destination length | u16 key length | u32 headers length | u32 envelope length
    | destination | key | headers | envelope

Destination, key and header texts are UTF-8. Headers are entries, one after another:

    u16 name length | u32 value length | name | value

`durable` holds u64 segment | u64 byte | u32 crc32 of these 16 bytes: everything before that
position is flushed to disk. A position is the number of a segment and a byte in it where a block
starts or the segment ends. Positions rise, and what stands before the durable end never changes, so
a reader that keeps the position after its last block continues there after any crash.

The writing side is in `sinks.log_writer`. Nothing here starts a thread or keeps a file open.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import zstandard
from isal.isal_zlib import crc32

from tardis_machine.model.errors import SinkError

VERSION = 1
CODEC_NONE, CODEC_ZSTD = 0, 1
CLOSED_SUFFIX, OPEN_SUFFIX = ".log", ".open"
DURABLE_FILE, LOCK_FILE = "durable", "lock"
BLOCK_HEADER = struct.Struct("<BBII")
RECORD_HEADER = struct.Struct("<HHII")
DURABLE = struct.Struct("<QQI")
_HEADER_ENTRY = struct.Struct("<HI")
_DURABLE_ATTEMPTS = 10
_MAX_BLOCK_BYTES = 1 << 30


class LogError(SinkError):
    """A segment does not have the documented form."""


class Position(NamedTuple):
    """A place in a log; places of one log are ordered."""

    segment: int
    byte: int


class Segment(NamedTuple):
    """One file of a log."""

    number: int
    path: Path
    is_closed: bool


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One event as it stands in a log."""

    destination: str
    key: str
    packed_headers: bytes
    envelope: bytes

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers by name."""
        return unpack_headers(self.packed_headers)


class Block(NamedTuple):
    """Some records that were appended together."""

    start: int
    end: int
    records: list[LogRecord]


def segments(directory: Path) -> list[Segment]:
    """Return the segments of a log in their order; none when the directory does not exist."""
    found = {}
    for path in directory.glob("*.*") if directory.is_dir() else ():
        if path.suffix in (CLOSED_SUFFIX, OPEN_SUFFIX) and path.stem.isdigit():
            segment = Segment(int(path.stem), path, path.suffix == CLOSED_SUFFIX)
            # Seen under both names while it is renamed: the closed one is the newer.
            if segment.is_closed or segment.number not in found:
                found[segment.number] = segment
    return [found[number] for number in sorted(found)]


def segment_path(directory: Path, number: int, *, is_closed: bool) -> Path:
    """Return the name of a segment."""
    return directory / f"{number:020d}{CLOSED_SUFFIX if is_closed else OPEN_SUFFIX}"


def open_segment(directory: Path, number: int) -> BinaryIO:
    """Open a segment for reading, whether or not it was closed in the meantime."""
    try:
        return segment_path(directory, number, is_closed=False).open("rb")
    except FileNotFoundError:
        return segment_path(directory, number, is_closed=True).open("rb")


def durable_end(directory: Path) -> Position:
    """Return how far a log may be read: behind the last closed segment or further."""
    closed = [segment for segment in segments(directory) if segment.is_closed]
    end = Position(closed[-1].number, closed[-1].path.stat().st_size) if closed else Position(0, 0)
    return max(end, _noted_end(directory))


def _noted_end(directory: Path) -> Position:
    for _ in range(_DURABLE_ATTEMPTS):
        try:
            noted = (directory / DURABLE_FILE).read_bytes()
        except FileNotFoundError:
            break
        if len(noted) == DURABLE.size:
            segment, byte, checksum = DURABLE.unpack(noted)
            if crc32(noted[:-4]) == checksum:
                return Position(segment, byte)
    return Position(0, 0)


def read_blocks(path: Path, start_byte: int = 0, end_byte: int | None = None) -> Iterator[Block]:
    """Yield the blocks of a segment from one position to another (or its last whole block).

    Raises:
        LogError: a block inside the range is damaged.
    """
    with path.open("rb") as file:
        yield from blocks_of(file, start_byte, end_byte)


def blocks_of(file: BinaryIO, start_byte: int = 0, end_byte: int | None = None) -> Iterator[Block]:
    """Yield the blocks of an open segment; see `read_blocks`."""
    for start, end, payload in payloads_of(file, start_byte, end_byte):
        yield Block(start, end, list(parse_records(payload)))


def payloads_of(
    file: BinaryIO, start_byte: int = 0, end_byte: int | None = None
) -> Iterator[tuple[int, int, bytes]]:
    """Yield start, end and decompressed payload of the blocks of an open segment."""
    file.seek(start_byte)
    position = start_byte
    while end_byte is None or position < end_byte:
        header = file.read(BLOCK_HEADER.size)
        if len(header) < BLOCK_HEADER.size:
            return
        version, codec, length, checksum = BLOCK_HEADER.unpack(header)
        if version != VERSION or length > _MAX_BLOCK_BYTES:
            raise LogError(f"{file.name}: no block of a known version at byte {position}.")
        stored = file.read(length)
        if len(stored) < length:
            return
        if crc32(stored) != checksum:
            raise LogError(f"{file.name}: the block at byte {position} is corrupt.")
        end = position + BLOCK_HEADER.size + length
        yield position, end, _decompressed(codec, stored, file.name)
        position = end


def whole_end(path: Path) -> int:
    """Return where the valid part of a segment ends; a crash may leave a partial block after it."""
    end = 0
    with path.open("rb") as file:
        try:
            for _, end, _ in payloads_of(file):  # noqa: B007 - the last one is what is asked for
                pass
        except LogError:
            pass
    return end


def pack_block(payload: bytes, codec: int = CODEC_NONE) -> bytes:
    """Return a block of packed records."""
    stored = zstandard.compress(payload) if codec == CODEC_ZSTD else payload
    return BLOCK_HEADER.pack(VERSION, codec, len(stored), crc32(stored)) + stored


def pack_record(destination: bytes, key: bytes, headers: bytes, envelope: bytes) -> bytes:
    """Return one record."""
    sizes = RECORD_HEADER.pack(len(destination), len(key), len(headers), len(envelope))
    return b"".join((sizes, destination, key, headers, envelope))


def pack_headers(headers: Mapping[str, str] | Sequence[tuple[str, str]]) -> bytes:
    """Return header entries."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    parts = []
    for name, value in ((name.encode(), value.encode()) for name, value in pairs):
        parts += [_HEADER_ENTRY.pack(len(name), len(value)), name, value]
    return b"".join(parts)


def unpack_headers(packed: bytes) -> dict[str, str]:
    """Return the headers of a record by name."""
    headers, position = {}, 0
    while position < len(packed):
        name_length, value_length = _HEADER_ENTRY.unpack_from(packed, position)
        middle = position + _HEADER_ENTRY.size + name_length
        name = packed[middle - name_length : middle]
        position = middle + value_length
        headers[name.decode()] = packed[middle:position].decode()
    return headers


def parse_records(payload: bytes) -> Iterator[LogRecord]:
    """Yield the records of a decompressed payload."""
    position, unpack, size = 0, RECORD_HEADER.unpack_from, RECORD_HEADER.size
    texts: dict[bytes, str] = {}
    while position < len(payload):
        destination_length, key_length, headers_length, envelope_length = unpack(payload, position)
        destination_end = position + size + destination_length
        key_end = destination_end + key_length
        headers_end = key_end + headers_length
        destination = payload[position + size : destination_end]
        key = payload[destination_end:key_end]
        position = headers_end + envelope_length
        # Destinations and keys repeat; decoding each once halves the cost.
        destination_text = texts.get(destination) or texts.setdefault(
            destination, destination.decode()
        )
        key_text = texts.get(key) or texts.setdefault(key, key.decode())
        yield LogRecord(
            destination_text, key_text, payload[key_end:headers_end], payload[headers_end:position]
        )


def count_records(payload: bytes) -> int:
    """Return the number of records in a decompressed payload."""
    position, count, size = 0, 0, RECORD_HEADER.size
    while position < len(payload):
        position += size + sum(RECORD_HEADER.unpack_from(payload, position))
        count += 1
    return count


def _decompressed(codec: int, stored: bytes, name: str) -> bytes:
    if codec == CODEC_NONE:
        return stored
    if codec == CODEC_ZSTD:
        return zstandard.decompress(stored)
    raise LogError(f"{name}: unknown codec {codec}.")
