"""The messages of one exchange that the feed contract needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from zlib import crc32

TIME_MS = 1_788_220_800_000
ISO = "2026-09-01T00:00:00.123456Z"
ISO_MS = "2026-09-01T00:00:00.123Z"
Message: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class LiveVenue:
    """The messages of one exchange; books have one bid, whose price is the number of the update."""

    exchange: str
    symbols: tuple[str, str]
    trade: Callable[[str], Message]
    snapshot: Callable[[str, int], Message]
    """A whole book; the body of a REST answer where `begins_with_rest`."""
    update: Callable[[str, int, int], Message]
    """From symbol, number of the update before and number of this one."""
    error: Message
    half: Callable[[str], Message]
    """A trade whose price is missing."""
    begins_with_rest: bool = False
    rest_url: Callable[[str], str] = lambda symbol: f"depth?symbol={symbol}&"
    """Part of the address that the snapshot of a symbol is asked by."""
    greeting: tuple[Any, ...] = ()
    """What comes first: old trades, or what the numbers of later messages stand for."""
    begins_with_request: bool = False
    """Whether a book is asked for on the socket, by a frame with its symbol under `req`."""
    sends_whole_books: bool = False
    """Whether every update is a snapshot."""
    has_numbers: bool = False
    """Whether updates are numbered, so that a gap is noticed."""
    ignores_unknown_symbols: Message | None = None
    checked: Callable[[Message, list[int]], Message] | None = None
    """Adds the checksum of a book with these bids, best first, to a book message."""


def with_alternating_sum(message: Message, bids: list[int]) -> Message:
    """Add the checksum of OKX and Bitget, of a book without asks and with amounts of 1."""
    [item] = message["data"]
    crc = crc32(":".join(f"{price}:1" for price in bids).encode())
    checksum = int.from_bytes(crc.to_bytes(4), signed=True)
    return message | {"data": [item | {"checksum": checksum}]}
