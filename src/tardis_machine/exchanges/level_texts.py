"""Levels that stay text: `[["61000.5","2"],…]` of a venue becomes the JSON of a book change.

A long side is rewritten without reading its numbers, which costs about half of reading them, making
levels and writing those. What a client gets is the same by value; the digits are the venue's own.

Every text is checked: it must be pairs of plain decimals, and valid JSON once it is rewritten.
Whatever is not (an exponent, a blank, a third entry) is decoded to numbers, as short messages are.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from tardis_machine.model.records import BookLevel

LONG_BYTES = 600
"""From this length of a message on, rewriting its levels is cheaper than reading them."""

NO_LEVELS = Raw(b"[]")


class Pair(Protocol):
    """A level in whatever struct a venue has for it."""

    @property
    def price(self) -> float:
        """Return its price."""

    @property
    def amount(self) -> float:
        """Return its amount."""


_NUMBERS = b"0123456789."
_PAIR = b'["",""]'


_decode_raw = msgspec.json.Decoder(Raw).decode
"""Finds numbers that JSON does not have: 1.2.3, 007, .5 and none at all."""


def level_text(pairs: Raw) -> Raw | None:
    """Rewrite one side of a book change; None when it is not pairs of decimals."""
    text = bytes(pairs)
    if text == b"[]":
        return pairs
    shape = text.translate(None, _NUMBERS)
    if shape != _shape_of_pairs(len(shape)):
        return None
    levels = text[3:-3].replace(b'"],["', b'},{"price":').replace(b'","', b',"amount":')
    try:
        return _decode_raw(b'[{"price":%b}]' % levels)
    except msgspec.DecodeError:
        return None


_decode_levels = msgspec.json.Decoder(list[BookLevel]).decode


@lru_cache(maxsize=4096)
def _shape_of_pairs(length: int) -> bytes:
    """Return an array of pairs without their numbers that has this length, if there is one."""
    return b"[%b]" % b",".join([_PAIR] * (length // (len(_PAIR) + 1)))


def levels_of(side: Sequence[Pair] | Raw) -> Sequence[Pair]:
    """Return the levels of a side in either form."""
    return _decode_levels(side) if isinstance(side, Raw) else side


class TextLevels:
    """Decodes messages whose levels are pairs of text; stands where handlers name a struct.

    Args:
        typed: The struct of a message with its levels as numbers.
        text: The same with `msgspec.Raw` for the two sides. They are rewritten in place.
        holder: Returns the part of a text message that has the sides.
        bids: Name of its field with the bids.
        asks: Name of its field with the asks.
        long_bytes: Shorter messages are decoded to the typed struct.
    """

    def __init__(
        self,
        typed: Any,
        text: Any,
        holder: Callable[[Any], Any],
        *,
        bids: str,
        asks: str,
        long_bytes: int = LONG_BYTES,
    ) -> None:
        self.decode_typed = msgspec.json.Decoder(typed, strict=False).decode
        """Decodes a message of any length to numbers."""
        self._decode_text = msgspec.json.Decoder(text, strict=False).decode
        self._holder = holder
        self._sides = bids, asks
        self._long_bytes = long_bytes

    def decoder(self) -> Callable[[bytes], Any]:
        """Return what decodes short messages to the typed struct, long ones to the text struct."""
        decode_typed, decode_long = self.decode_typed, self._decode_long
        long_bytes = self._long_bytes

        def decode(message: bytes) -> Any:
            # Nothing else for short messages: this runs for every one of them.
            return decode_typed(message) if len(message) < long_bytes else decode_long(message)

        return decode

    def _decode_long(self, message: bytes) -> Any:
        decoded = self._decode_text(message)
        holder, (bids, asks) = self._holder(decoded), self._sides
        bid_text, ask_text = level_text(getattr(holder, bids)), level_text(getattr(holder, asks))
        if bid_text is None or ask_text is None:
            return self.decode_typed(message)
        setattr(holder, bids, bid_text)
        setattr(holder, asks, ask_text)
        return decoded
