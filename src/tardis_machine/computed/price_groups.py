"""The best levels of a side summed by price step, kept up to date while the book changes.

Neighbours of equal grouped price are one group. A change redoes the groups that it touches, and
those next to them that a new or a missing level joins; all others stay as they are. The amounts of
a group are added best first, each time anew: a running sum would have other digits.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import msgspec

from tardis_machine.computed.grouping import GroupedPrices
from tardis_machine.computed.order_book import BookSide
from tardis_machine.model.records import BookLevel

_encode = msgspec.json.Encoder().encode


class Group(NamedTuple):
    """Neighbouring levels of one grouped price."""

    price: float
    text: bytes
    """Its price and amount as JSON."""
    best_key: float
    worst_key: float


class PriceGroups:
    """The best `depth` groups of a side.

    Args:
        side: The side of a book.
        prices: The grouped price of each price.
        depth: How many groups are wanted.
    """

    __slots__ = ("_depth", "_groups", "_prices", "_reach", "_side")

    def __init__(self, side: BookSide, prices: GroupedPrices, depth: int) -> None:
        self._side = side
        self._prices = prices
        self._depth = depth
        self._groups: list[Group] = []
        self._reach = min(depth, 1)

    def __len__(self) -> int:
        return len(self._groups)

    def text(self) -> bytes:
        """Write the groups as the items of a JSON array, best first."""
        return b",".join([group.text for group in self._groups])

    def rebuild(self) -> None:
        """Group the side anew."""
        self._groups = []
        self._fill(0)
        self._find_reach()

    def follow(self) -> bool:
        """Take over the last change of the side; say whether it may have touched these groups."""
        if self._side.changed_depth >= self._reach:
            return False
        groups = self._groups
        first, last = self._touched(*self._side.changed_keys())
        self._groups = groups[:first]
        self._fill(self._side.index(groups[last].best_key) + 1 if last < len(groups) else 0)
        self._groups += groups[last : last + self._depth - len(self._groups)]
        self._fill(0)
        self._find_reach()
        return True

    def _touched(self, worst: float, best: float) -> tuple[int, int]:
        """Return the first group to redo, and the first one behind those."""
        groups, levels = self._groups, self._side.levels
        first = bisect_left(groups, -best, key=lambda group: -group.worst_key)
        last = bisect_right(groups, -worst, key=lambda group: -group.best_key)
        if first:
            behind = self._side.index(groups[first - 1].worst_key) - 1
            if behind >= 0 and self._prices[levels[behind].price] == groups[first - 1].price:
                first -= 1
        if last < len(groups):
            before = self._side.index(groups[last].best_key) + 1
            if before < len(levels) and self._prices[levels[before].price] == groups[last].price:
                last += 1
        return first, last

    def _fill(self, start: int) -> None:
        """Add groups of the levels that follow, down to the one at index `start`."""
        groups, side, prices = self._groups, self._side, self._prices
        levels, key = side.levels, side.key
        end = side.index(groups[-1].worst_key) if groups else len(levels)
        while end > start and len(groups) < self._depth:
            level = levels[end - 1]
            best_key, price, amount = key(end - 1), prices[level.price], level.amount
            end -= 1
            while end > start and prices[levels[end - 1].price] == price:
                end -= 1
                amount += levels[end].amount
            groups.append(Group(price, _encode(BookLevel(price, amount)), best_key, key(end)))

    def _find_reach(self) -> None:
        """Note from which depth on changes cannot be seen."""
        side, groups = self._side, self._groups
        count = len(side) - side.index(groups[-1].worst_key) if groups else 0
        # A level that is inserted right behind the last group may belong to it.
        self._reach = count + 1 if self._depth else 0
