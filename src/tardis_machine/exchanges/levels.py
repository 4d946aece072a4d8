"""Levels as most venues send them: an array of price and amount."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import Raw, Struct

from tardis_machine.model.compiled import compiled_module
from tardis_machine.model.records import AnyBookChange, BookChange, BookLevel, EncodedBookChange

ReadLevels: TypeAlias = Callable[[Sequence[Any]], list[BookLevel]]
"""Returns the levels of a venue's message as records have them."""


class Level(Struct, array_like=True, gc=False):
    """Price and amount of a level; what follows them in the array is not read."""

    price: float
    amount: float


def _book_levels(levels: Sequence[Any]) -> list[BookLevel]:
    """Return the levels as records have them."""
    # Most changes have a side without levels, or with one: a comprehension costs a call.
    if not levels:
        return []
    if len(levels) == 1:
        (level,) = levels
        return [BookLevel(level.price, level.amount)]
    return [BookLevel(level.price, level.amount) for level in levels]


def _book_change(
    symbol: str,
    exchange: str,
    bids: Sequence[Any] | Raw,
    asks: Sequence[Any] | Raw,
    timestamp: str,
    local: str,
    *,
    is_snapshot: bool,
    read: ReadLevels = _book_levels,
) -> AnyBookChange:
    """Return a book change whose sides are levels, made of what `read` gets, or texts."""
    if type(bids) is Raw and type(asks) is Raw:
        return EncodedBookChange(
            symbol=symbol,
            exchange=exchange,
            is_snapshot=is_snapshot,
            bid_text=bids,
            ask_text=asks,
            timestamp=timestamp,
            local_timestamp=local,
        )
    return BookChange(
        symbol=symbol,
        exchange=exchange,
        is_snapshot=is_snapshot,
        bids=read(bids),
        asks=read(asks),
        timestamp=timestamp,
        local_timestamp=local,
    )


_compiled = compiled_module("tardis_machine.exchanges.compiled_levels")
book_levels = _book_levels if _compiled is None else _compiled.book_levels
book_change = _book_change if _compiled is None else _compiled.book_change
