"""Lines of a recording that are not messages of the exchange.

Every slice begins with one that names its recorder. One that tells a loss stands where a connection
ended or a book had a gap: an empty line would say that everything starts over, but a lost socket
resets its own channels and symbols only. Tools that do not know them ignore them, as they ignore
every message without a channel.
"""

from collections.abc import Sequence

import msgspec

from tardis_machine.exchanges.lines import MESSAGE_START
from tardis_machine.model.time import us_text

MARK = b'Z {"recorder":"'
"""What no line of an exchange contains."""

_MARK_START = MESSAGE_START - MARK.index(b"{")


class RecordedLoss(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What starts over."""

    local_timestamp: str
    """When the last message before it came."""
    data_types: tuple[str, ...]
    symbols: tuple[str, ...] | None = None
    """In upper case; None for all."""
    is_everything: bool = False
    """Whether nothing of the exchange is left."""


class Marker(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the recorder."""

    recorder: str
    lost: RecordedLoss | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Marker).decode


def line_start(local_us: int) -> bytes:
    """Return what a recorded line begins with: the time with seven digits, and a blank."""
    return f"{us_text(local_us)[:-1]}0Z ".encode()


def marker_line(local_us: int, marker: Marker) -> bytes:
    """Write a marker as a line."""
    return line_start(local_us) + _encode(marker) + b"\n"


def read_marker(line: bytes) -> Marker | None:
    """Return the marker that a line is; None for every other line."""
    if not line.startswith(MARK, _MARK_START):
        return None
    return _decode(line[MESSAGE_START:])


def without_markers(lines: Sequence[bytes]) -> list[bytes]:
    """Return the lines of a recording as a raw replay shows them: a loss is an empty line."""
    shown = []
    for line in lines:
        marker = read_marker(line)
        if marker is None:
            shown.append(line)
        elif marker.lost is not None:
            shown.append(b"")
    return shown
