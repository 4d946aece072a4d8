"""WebSocket text frames for a whole chunk, built at once.

One frame per message is what clients expect; one write per chunk is what makes it cheap.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache

from tardis_machine.model.compiled import compiled_module

_FINAL_TEXT = 0x81
_FINAL_CLOSE = 0x88
_FINAL_PING = 0x89
_MAX_REASON_BYTES = 123
_CUT_REASON_BYTES = 120


@lru_cache(maxsize=65_536)
def _header(length: int) -> bytes:
    """Return the header of an unmasked, final text frame."""
    if length < 126:
        return struct.pack("!BB", _FINAL_TEXT, length)
    if length < 65_536:
        return struct.pack("!BBH", _FINAL_TEXT, 126, length)
    return struct.pack("!BBQ", _FINAL_TEXT, 127, length)


def text_frames(messages: Sequence[bytes]) -> bytes:
    """Return the frames of these messages, ready to be written."""
    parts = [b""] * (2 * len(messages))
    parts[::2] = map(_header, map(len, messages))
    parts[1::2] = messages
    return b"".join(parts)


def _line_frames(lines: bytes) -> bytes:
    """Return the frames of lines, one for each; the last one ends with a newline too."""
    messages = lines.split(b"\n")
    messages.pop()
    return text_frames(messages)


_compiled = compiled_module("tardis_machine.server.compiled_ws_frames")
line_frames: Callable[[bytes], bytes] = _line_frames if _compiled is None else _compiled.line_frames


def close_frame(code: int, reason: str) -> bytes:
    """Return the frame that ends a connection."""
    return _control_frame(_FINAL_CLOSE, struct.pack("!H", code) + close_reason(reason))


def ping_frame(payload: bytes) -> bytes:
    """Return a ping."""
    return _control_frame(_FINAL_PING, payload)


def _control_frame(first: int, payload: bytes) -> bytes:
    return struct.pack("!BB", first, len(payload)) + payload


def close_reason(text: str) -> bytes:
    """Return a close reason that fits into a control frame.

    A longer one is cut to 120 bytes, a character split by that replaced by U+FFFD.
    """
    encoded = text.encode()
    if len(encoded) <= _MAX_REASON_BYTES:
        return encoded
    return encoded[:_CUT_REASON_BYTES].decode(errors="replace").encode()[:_MAX_REASON_BYTES]
