"""Levels as most venues send them: an array of price and amount."""

from collections.abc import Sequence

from msgspec import Struct

from tardis_machine.model.records import BookLevel


class Level(Struct, array_like=True, gc=False):
    """Price and amount of a level; what follows them in the array is not read."""

    price: float
    amount: float


def book_levels(levels: Sequence[Level]) -> list[BookLevel]:
    """Return the levels as records have them."""
    # Most changes have a side without levels, or with one: a comprehension costs a call.
    if not levels:
        return []
    if len(levels) == 1:
        (level,) = levels
        return [BookLevel(level.price, level.amount)]
    return [BookLevel(level.price, level.amount) for level in levels]
