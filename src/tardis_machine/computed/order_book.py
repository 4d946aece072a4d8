"""An order book of price levels, sorted so that the best ones are cheap to change and to read.

Each side is a pair of parallel lists with the best level last: most changes happen near the best
price, so an insert or a removal moves few entries. A side knows the smallest depth that the last
change touched, and keeps the JSON text of its best levels up to date while the levels change.
"""

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tardis_machine.model.records import AnyBookChange, BookLevel

UNCHANGED = sys.maxsize
"""The changed depth of a side on which nothing changed."""

_encode = msgspec.json.Encoder().encode


class CrossedRemoval(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The best levels around the removal of one level that crossed the book."""

    best_bid_before: BookLevel | None
    best_bid_after: BookLevel | None
    best_ask_before: BookLevel | None
    best_ask_after: BookLevel | None


class BookSide:
    """The levels of one side, best last, and the JSON text of the best of them."""

    __slots__ = (
        *("_changes", "_keys", "_sign", "_text_depth", "_texts"),
        *("changed_depth", "levels"),
    )

    def __init__(self, *, is_bid: bool, text_depth: int = 0) -> None:
        self.levels: list[BookLevel] = []
        """All levels, best last; for reading only."""
        self.changed_depth = UNCHANGED
        """Smallest depth, counted from the best level as 0, that the last change touched."""
        # The price of each level, that of an ask negated: both sides sort upwards.
        self._keys: list[float] = []
        self._sign = 1.0 if is_bid else -1.0
        self._changes: Sequence[BookLevel] = ()
        self._text_depth = text_depth
        # Texts of the best levels, best first, as many as `text` was last asked for. Removals make
        # the list shorter and inserts longer until the next call.
        self._texts: list[bytes] = []

    def __len__(self) -> int:
        return len(self.levels)

    def __iter__(self) -> Iterator[BookLevel]:
        return reversed(self.levels)

    @property
    def best(self) -> BookLevel | None:
        """Return the best level, or None when the side is empty."""
        return self.levels[-1] if self.levels else None

    def top(self, depth: int) -> list[BookLevel]:
        """Return at most `depth` levels, best first."""
        return self.levels[: -depth - 1 : -1]

    def key(self, index: int) -> float:
        """Return the price of a level, that of an ask negated."""
        return self._keys[index]

    def index(self, key: float) -> int:
        """Return the place of the first level that is not worse than a key."""
        return bisect_left(self._keys, key)

    def changed_keys(self) -> tuple[float, float]:
        """Return the worst and the best key that the last change may have touched."""
        if not self._changes:
            return -math.inf, math.inf
        keys = [level.price * self._sign for level in self._changes]
        return min(keys), max(keys)

    def text(self, depth: int) -> bytes:
        """Write at most `depth` levels as the items of a JSON array, best first.

        Depths up to the `text_depth` of this side come from level texts kept since the last call.
        """
        texts = self._texts
        kept = len(texts)
        if kept != depth:
            if depth > self._text_depth:
                return _encode(self.top(depth))[1:-1]
            if kept < depth:
                texts.extend(map(_encode, self.levels[-kept - 1 : -depth - 1 : -1]))
            del texts[self._text_depth :]
            texts = texts[:depth]
        return b",".join(texts)

    def load(self, levels: Sequence[BookLevel]) -> None:
        """Replace all levels; later ones win over earlier ones of the same price."""
        sign = self._sign
        by_key: dict[float, BookLevel] = {}
        for level in levels:
            if level.amount == 0:
                by_key.pop(level.price * sign, None)
            else:
                by_key[level.price * sign] = level
        self._keys = sorted(by_key)
        self.levels = [by_key[key] for key in self._keys]
        self._texts.clear()
        self._changes = ()
        self.changed_depth = 0

    def apply(self, changes: Sequence[BookLevel]) -> None:
        """Set the amounts of some levels, in order; amount 0 removes a level."""
        keys, levels, texts, sign = self._keys, self.levels, self._texts, self._sign
        changed_depth = UNCHANGED
        for level in changes:
            amount = level.amount
            key = level.price * sign
            index = bisect_left(keys, key)
            depth = len(keys) - index - 1
            if depth < 0 or keys[index] != key:
                if amount == 0:
                    continue
                keys.insert(index, key)
                levels.insert(index, level)
                depth += 1
                if depth < len(texts):
                    texts.insert(depth, _encode(level))
            elif amount == 0:
                del keys[index], levels[index]
                if depth < len(texts):
                    del texts[depth]
            elif amount == levels[index].amount:
                continue
            else:
                levels[index] = level
                if depth < len(texts):
                    texts[depth] = _encode(level)
            if depth < changed_depth:
                changed_depth = depth
        self.changed_depth = changed_depth
        self._changes = changes

    def remove_best(self) -> None:
        """Drop the best level."""
        del self._keys[-1], self.levels[-1], self._texts[:1]
        self._changes = ()
        self.changed_depth = 0


class OrderBook:
    """Both sides of one market, kept by its book changes.

    Args:
        removes_crossed_levels: Whether levels that cross the book after a change are dropped.
        on_removal: Called for each dropped level.
        text_depth: How many levels per side keep their JSON text, for snapshots on every change.
    """

    __slots__ = ("_has_snapshot", "_on_removal", "_removes_crossed_levels", "asks", "bids")

    def __init__(
        self,
        *,
        removes_crossed_levels: bool = False,
        on_removal: Callable[[CrossedRemoval], None] | None = None,
        text_depth: int = 0,
    ) -> None:
        self.bids = BookSide(is_bid=True, text_depth=text_depth)
        self.asks = BookSide(is_bid=False, text_depth=text_depth)
        self._has_snapshot = False
        self._removes_crossed_levels = removes_crossed_levels
        self._on_removal = on_removal

    def apply(self, change: AnyBookChange) -> None:
        """Apply one book change; changes before the first snapshot are ignored."""
        bids, asks = self.bids, self.asks
        if change.is_snapshot:
            self._has_snapshot = True
            asks.load(change.asks)
            bids.load(change.bids)
        elif self._has_snapshot:
            # A call less for the side that most changes leave alone.
            if changed := change.asks:
                asks.apply(changed)
            else:
                asks.changed_depth = UNCHANGED
            if changed := change.bids:
                bids.apply(changed)
            else:
                bids.changed_depth = UNCHANGED
        # Only a new best level can cross the book.
        is_top_touched = not bids.changed_depth or not asks.changed_depth
        if is_top_touched and self._removes_crossed_levels and self._is_crossed():
            self._remove_crossed(change)

    def _is_crossed(self) -> bool:
        bid, ask = self.bids.best, self.asks.best
        return bid is not None and ask is not None and bid.price >= ask.price

    def _remove_crossed(self, change: AnyBookChange) -> None:
        """Drop best levels of the side that this change shows to be stale, until none cross."""
        ask = self.asks.best
        is_ask_fresh = ask is not None and any(new.price == ask.price for new in change.asks)
        stale = self.bids if is_ask_fresh else self.asks
        while self._is_crossed():
            bid_before, ask_before = self.bids.best, self.asks.best
            stale.remove_best()
            if self._on_removal is not None:
                removal = CrossedRemoval(bid_before, self.bids.best, ask_before, self.asks.best)
                self._on_removal(removal)
