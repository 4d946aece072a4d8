"""Frames of clients must be masked; the library reads unmasked ones too."""

import asyncio
from typing import Any

from aiohttp import WSCloseCode

from tardis_machine.server.ws_frames import close_frame

_MASKED = 0x80
_LENGTH = 0x7F
_MASK_BYTES = 4
_MAX_HEADER_BYTES = 14


class MaskedFrames:
    """Passes frames on to the library's reader, up to the first one that is not masked."""

    def __init__(self, reader: Any, transport: asyncio.Transport | None) -> None:
        self._reader = reader
        self._transport = transport
        self._head = b""
        self._left = 0
        """Bytes of the current frame that are still to come."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take what arrived."""
        if self._are_masked(data):
            passed: tuple[bool, bytes] = self._reader.feed_data(data)
            return passed
        if self._transport is not None:
            self._transport.write(close_frame(WSCloseCode.PROTOCOL_ERROR, "unmasked frame"))
            self._transport.close()
        return True, b""

    def feed_eof(self) -> None:
        """Take the end."""
        self._reader.feed_eof()

    def _are_masked(self, data: bytes) -> bool:
        position = 0
        while True:
            step = min(self._left, len(data) - position)
            position += step
            self._left -= step
            if position == len(data):
                return True
            head = self._head + data[position : position + _MAX_HEADER_BYTES - len(self._head)]
            if len(head) > 1 and not head[1] & _MASKED:
                return False
            size, payload = _measure(head)
            if len(head) < size:
                self._head = head
                return True
            position += size - len(self._head)
            self._head, self._left = b"", payload


def _measure(head: bytes) -> tuple[int, int]:
    """Return the size of a frame's header and, when it is complete, of its payload."""
    length = head[1] & _LENGTH if len(head) > 1 else 0
    extra = {126: 2, 127: 8}.get(length, 0)
    if extra:
        length = int.from_bytes(head[2 : 2 + extra], "big")
    return 2 + extra + _MASK_BYTES, length
