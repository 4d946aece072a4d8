"""The little of AMQP 1.0's encoding that the protocol engine does not do for us.

Section codes of a message: 0x70 header, 0x71 delivery annotations, 0x72 message annotations,
0x73 properties, 0x74 application properties, 0x75 data, 0x76 sequence, 0x77 value, 0x78 footer.
"""

import struct
from collections.abc import Iterator

MESSAGE_ANNOTATIONS = 0x72
DATA = 0x75
NULL = b"\x40"
# Fields that azure-eventhub reads by position, per performative: open, begin, attach, flow,
# transfer, disposition, detach, end, close.
FIELDS = {
    0x10: 10,
    0x11: 8,
    0x12: 14,
    0x13: 11,
    0x14: 11,
    0x15: 6,
    0x16: 3,
    0x17: 1,
    0x18: 1,
}
# Bytes of a value after its constructor, by the constructor's upper half; below, the width of
# the size that stands before values of variable length.
FIXED_WIDTHS = {0x40: 0, 0x50: 1, 0x60: 2, 0x70: 4, 0x80: 8, 0x90: 16}
SIZE_WIDTHS = {0xA0: 1, 0xB0: 4, 0xC0: 1, 0xD0: 4, 0xE0: 1, 0xF0: 4}


def value_end(encoded: bytes, start: int) -> int:
    """Return where the value that starts at `start` ends."""
    kind = encoded[start] & 0xF0
    if kind in FIXED_WIDTHS:
        return start + 1 + FIXED_WIDTHS[kind]
    width = SIZE_WIDTHS[kind]
    return start + 1 + width + int.from_bytes(encoded[start + 1 : start + 1 + width])


def content(value: bytes) -> bytes:
    """Return the bytes of a binary, string or symbol without constructor and size."""
    return value[1 + SIZE_WIDTHS[value[0] & 0xF0] :]


def described(encoded: bytes, start: int) -> tuple[int, int]:
    """Return the code of a described value and where the value itself starts."""
    end = value_end(encoded, start + 1)
    return int.from_bytes(encoded[start + 2 : end]), end


def sections(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield code and encoded value of every section of a message."""
    position = 0
    while position < len(message):
        code, start = described(message, position)
        position = value_end(message, start)
        yield code, message[start:position]


def join_sections(parts: list[tuple[int, bytes]]) -> bytes:
    """Return the message made of these sections, in the order that AMQP wants."""
    ordered = sorted(parts, key=lambda part: part[0])
    return b"".join(bytes((0x00, 0x53, code)) + value for code, value in ordered)


def batch_members(message: bytes) -> list[bytes]:
    """Return the messages inside a batch, or the message itself when it is none."""
    members = [content(value) for code, value in sections(message) if code == DATA]
    # The engine hides the message format that marks a batch. Its members are whole messages and
    # start with a section; no protobuf envelope starts with a zero byte.
    is_batch = all(member[:2] in (b"\x00\x53", b"\x00\x80") for member in members)
    return members if members and is_batch else [message]


def body(message: bytes) -> bytes:
    """Return the content of the data sections."""
    return b"".join(content(value) for code, value in sections(message) if code == DATA)


def annotations(message: bytes) -> dict[bytes, bytes]:
    """Return names and encoded values of the message annotations."""
    for code, value in sections(message):
        if code == MESSAGE_ANNOTATIONS:
            _, items = _items(value)
            return {content(name): held for name, held in zip(items[::2], items[1::2], strict=True)}
    return {}


def with_annotations(message: bytes, extra: dict[str, bytes]) -> bytes:
    """Return the message with further annotations, given as encoded values."""
    parts, held, count = [], b"", 0
    for code, value in sections(message):
        if code == MESSAGE_ANNOTATIONS:
            count, items = _items(value)
            held = b"".join(items)
        else:
            parts.append((code, value))
    for name, value in extra.items():
        held += b"\xa3" + bytes((len(name),)) + name.encode() + value
    count += 2 * len(extra)
    merged = b"\xd1" + struct.pack(">II", len(held) + 4, count) + held
    return join_sections([*parts, (MESSAGE_ANNOTATIONS, merged)])


def encode_long(value: int) -> bytes:
    """Encode a 64-bit integer."""
    return b"\x81" + struct.pack(">q", value)


def encode_timestamp(value_ms: int) -> bytes:
    """Encode milliseconds since 1970."""
    return b"\x83" + struct.pack(">q", value_ms)


def encode_string(value: str) -> bytes:
    """Encode a text of less than 256 bytes."""
    return b"\xa1" + bytes((len(value.encode()),)) + value.encode()


def _items(collection: bytes) -> tuple[int, list[bytes]]:
    """Return the count and the encoded items of a list or map."""
    if len(collection) == 1:
        return 0, []
    width = SIZE_WIDTHS[collection[0] & 0xF0]
    position = 1 + 2 * width
    count = int.from_bytes(collection[1 + width : position])
    items = []
    for _ in range(count):
        end = _item_end(collection, position)
        items.append(collection[position:end])
        position = end
    return count, items


def _item_end(encoded: bytes, start: int) -> int:
    if encoded[start] == 0x00:
        _, start = described(encoded, start)
    return value_end(encoded, start)


class FramePadder:
    """Write out the trailing nulls that the engine leaves away and azure-eventhub counts on."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the frames that are complete now, padded."""
        buffer, padded, position = self._rest + data, [], 0
        while len(buffer) - position >= 8:
            is_header = buffer.startswith(b"AMQP", position)
            size = 8 if is_header else int.from_bytes(buffer[position : position + 4])
            if len(buffer) - position < size:
                break
            frame = buffer[position : position + size]
            padded.append(frame if is_header else _pad(frame))
            position += size
        self._rest = buffer[position:]
        return b"".join(padded)


def _pad(frame: bytes) -> bytes:
    start = frame[4] * 4
    is_empty_or_sasl = len(frame) == start or frame[5] != 0
    if is_empty_or_sasl:
        return frame
    code, fields = described(frame, start)
    end = value_end(frame, fields)
    count, items = _items(frame[fields:end])
    missing = FIELDS.get(code, 0) - count
    if missing <= 0:
        return frame
    held = b"".join(items) + NULL * missing
    listed = b"\xd0" + struct.pack(">II", len(held) + 4, count + missing) + held
    body = frame[4:fields] + listed + frame[end:]
    return struct.pack(">I", len(body) + 4) + body
