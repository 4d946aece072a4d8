"""Levels that stay text: `[["61000.5","2"],…]` of a venue becomes the JSON of a book change.

A side is rewritten without reading its numbers, which costs a fraction of reading them, making
levels and writing those. What a client gets is the same by value; the digits are the venue's own.

Compiled code does it while it decodes a message (`compiled_level_texts.pyx`) and checks every byte:
what is not plain decimals where they are expected is decoded to numbers. Without compiled code
everything is.
"""

from collections.abc import Container, Mapping, Sequence
from functools import cached_property
from types import NoneType
from typing import Any, Protocol, TypeAlias, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Raw, Struct

from tardis_machine.exchanges.decoding.messages import Decode, LevelForm, faster_decoder
from tardis_machine.model.records import BookLevel

NO_LEVELS = Raw(b"[]")

TextSides: TypeAlias = tuple[Raw, Raw]
"""Bids and asks, rewritten."""


class Pair(Protocol):
    """A level in whatever struct a venue has for it."""

    @property
    def price(self) -> float:
        """Return its price."""

    @property
    def amount(self) -> float:
        """Return its amount."""


_decode_levels = msgspec.json.Decoder(list[BookLevel]).decode


def levels_of(side: Sequence[Pair] | Raw) -> Sequence[Pair]:
    """Return the levels of a side in either form."""
    return _decode_levels(side) if isinstance(side, Raw) else side


def has_levels(side: Sequence[Pair] | Raw) -> bool:
    """Say whether a side in either form has a level."""
    return side != NO_LEVELS if isinstance(side, Raw) else bool(side)


class TextLevels:
    """Decodes messages whose levels stay text; stands where handlers name a struct.

    A message is decoded to a struct like the one of numbers, but its sides are texts: `book_change`
    takes either. `pair_levels`, `action_levels` and `side_changes` make one.

    Args:
        struct: The struct of a message with its levels as numbers.
        holder: Path to the part of it that has the levels, `params.data`; the message without one.
            Where it leads through a list, every item has such a part. A part may be None.
        levels: The fields with levels there, and how those are written.
    """

    def __init__(self, struct: type[Struct], holder: str, levels: Mapping[str, LevelForm]) -> None:
        self.struct = struct
        self._path = tuple(holder.split(".")) if holder else ()
        self._levels = levels

    @cached_property
    def decode(self) -> Decode:
        """Decode a message, with its levels as text where compiled code can rewrite them."""
        to_numbers = msgspec.json.Decoder(self.struct, strict=False).decode
        text_struct = _with_texts(self.struct, self._path, self._levels)
        return faster_decoder(text_struct, to_numbers, self._path, self._levels)


def pair_levels(struct: type[Struct], holder: str = "", *, bids: str, asks: str) -> TextLevels:
    """Read messages with two sides of pairs, `[["61000.5","2"],…]`."""
    return TextLevels(struct, holder, dict.fromkeys((bids, asks), ("pairs", b"")))


def action_levels(struct: type[Struct], holder: str = "", *, bids: str, asks: str) -> TextLevels:
    """Read messages with two sides of actions, `[["new",61000.5,2],["delete",61001,0],…]`."""
    return TextLevels(struct, holder, dict.fromkeys((bids, asks), ("actions", b"")))


def side_changes(struct: type[Struct], *, changes: str, buy: str = "buy") -> TextLevels:
    """Read messages with changes of both sides, `[["buy","61000.5","2"],…]`.

    As text the field is a pair: what says `buy`, and the rest.
    """
    return TextLevels(struct, "", {changes: ("sides", buy.encode())})


def _with_texts(struct: Any, path: Sequence[str], names: Container[str]) -> Any:
    """Return a struct like another one, in which some fields of one part are JSON as received."""
    origin, arguments = get_origin(struct) or struct, get_args(struct)
    if origin is list:
        return list[_with_texts(arguments[0], path, names)]  # type: ignore[misc]
    if NoneType in arguments:
        [kind] = set(arguments) - {NoneType}
        return _with_texts(kind, path, names) | None
    fields: list[tuple[str, Any, Any]] = []
    for each in msgspec.structs.fields(struct):
        kind, default, factory = each.type, each.default, each.default_factory
        if path and each.name == path[0]:
            kind = _with_texts(kind, path[1:], names)
        elif not path and each.name in names:
            kind = Raw
            if not each.required:
                default, factory = NO_LEVELS, NODEFAULT
        options = {"default": default, "default_factory": factory, "name": each.encode_name}
        fields.append((each.name, kind, msgspec.field(**options)))
    return msgspec.defstruct(
        origin.__name__, fields, gc=False, array_like=origin.__struct_config__.array_like
    )
