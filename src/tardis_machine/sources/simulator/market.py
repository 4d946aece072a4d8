"""One order book with makers and takers, in whole price levels and whole lots.

Everything is an integer, so the same seed gives the same market everywhere. The best bid stays
below the best ask; a taker executes against the best level and the book change follows from it.
"""

from random import Random
from typing import NamedTuple, TypeAlias

Change: TypeAlias = tuple[bool, int, int, int]
"""One changed level: is a bid, level, lots now (0: gone), lots before (0: new)."""

_MIN_LEVELS = 4
_MAX_FILLS = 8
_MAX_WITHDRAWN = 12
_LAG_TO_WITHDRAW = 16
_LOT_TABLE_SIZE = 1024
_DEPTH_TABLE_SIZE = 128


class Taken(NamedTuple):
    """What one taker order did: the fills in order, then the levels they changed."""

    is_buy: bool
    fills: list[tuple[int, int]]
    changes: list[Change]


class Market:
    """Hold both sides of a book and move them, one maker or taker event at a time.

    `changes_per_event` is a table of 64 counts; makers change that many levels at once.
    With `is_lossy` some removed levels are not reported, as if the message had been lost:
    who rebuilds the book sees it crossed until the level changes again.
    """

    def __init__(
        self,
        rng: Random,
        center: int,
        depth: int,
        changes_per_event: tuple[int, ...],
        *,
        is_lossy: bool = False,
    ) -> None:
        self._bits = rng.getrandbits
        self._lots = _lot_table(rng)
        self._depths = tuple(
            k * k * depth // _DEPTH_TABLE_SIZE**2 for k in range(_DEPTH_TABLE_SIZE)
        )
        self._depth = depth
        self._counts = changes_per_event
        self._is_lossy = is_lossy
        self._target = max(center, _MIN_LEVELS + 1)
        self.bids: dict[int, int] = {}
        self.asks: dict[int, int] = {}
        self.best_bid = self._target - 1
        self.best_ask = self._target + 1
        self._fill()

    def _fill(self) -> None:
        for offset in range(self._depth):
            if self.best_bid - offset >= 1 and self._is_occupied(offset):
                self.bids[self.best_bid - offset] = self._draw_lots()
            if self._is_occupied(offset):
                self.asks[self.best_ask + offset] = self._draw_lots()

    def _is_occupied(self, offset: int) -> bool:
        return offset < _MIN_LEVELS or self._bits(2) != 0

    def _draw_lots(self) -> int:
        return self._lots[self._bits(10)]

    def aim(self, level: int) -> None:
        """Set the level the market is drawn to from now on."""
        self._target = max(level, _MIN_LEVELS + 1)

    def best(self) -> tuple[int, int, int, int]:
        """Return level and lots of the best bid, then of the best ask."""
        bid, ask = self.best_bid, self.best_ask
        return bid, self.bids[bid], ask, self.asks[ask]

    def sorted_bids(self) -> list[tuple[int, int]]:
        """Return the bid levels with their lots, best first."""
        return sorted(self.bids.items(), reverse=True)

    def sorted_asks(self) -> list[tuple[int, int]]:
        """Return the ask levels with their lots, best first."""
        return sorted(self.asks.items())

    def top_bids(self, count: int) -> list[tuple[int, int]]:
        """Return the best bid levels with their lots, best first, without sorting all."""
        return _top(self.bids, self.best_bid, -1, count)

    def top_asks(self, count: int) -> list[tuple[int, int]]:
        """Return the best ask levels with their lots, best first, without sorting all."""
        return _top(self.asks, self.best_ask, 1, count)

    def _lag(self) -> int:
        """Return how far the target is above the middle of the book, in half levels."""
        return 2 * self._target - self.best_bid - self.best_ask

    def take(self) -> Taken:
        """Execute one taker order; it sweeps the levels that the target has left behind."""
        odds = 32_768 + max(-26_000, min(26_000, self._lag() * 2_000))
        is_buy = self._bits(16) < odds
        side, step = (self.asks, 1) if is_buy else (self.bids, -1)
        level = self.best_ask if is_buy else self.best_bid
        wanted = (self._draw_lots() >> 2) + 1
        taken = Taken(is_buy, [], [])
        for _ in range(_MAX_FILLS):
            is_stale = (self._target - level) * step > 0
            if not is_stale and wanted <= 0:
                break
            lots = self._fill_level(taken, side, level, None if is_stale else wanted)
            wanted -= lots
            if level in side:
                break
            level = _next_level(side, level, step)
        self._set_best(not is_buy, level)
        return self._lose_some(taken)

    def _fill_level(
        self, taken: Taken, side: dict[int, int], level: int, wanted: int | None
    ) -> int:
        resting = side[level]
        lots = resting if wanted is None else min(wanted, resting)
        left = resting - lots
        if not left and len(side) <= _MIN_LEVELS:
            left = resting  # a maker refills the last levels of a thin book
        if left:
            side[level] = left
        else:
            del side[level]
        taken.fills.append((level, lots))
        taken.changes.append((not taken.is_buy, level, left, resting))
        return lots

    def _lose_some(self, taken: Taken) -> Taken:
        if self._is_lossy and not taken.changes[0][2] and not self._bits(4):
            del taken.changes[0]
        return taken

    def _set_best(self, is_bid: bool, level: int) -> None:  # noqa: FBT001
        if is_bid:
            self.best_bid = level
        else:
            self.best_ask = level

    def change(self) -> list[Change]:
        """Let makers change some levels: improve, resize, cancel, add."""
        bits = self._bits(8)
        changes: dict[int, Change] = {}
        lag = self._lag()
        if self.best_ask - self.best_bid > 1 and bits & 1:
            self._improve(changes, lag)
        elif abs(lag) > 2 * _LAG_TO_WITHDRAW:
            self._withdraw(changes, lag)
        for _ in range(self._counts[bits >> 2]):
            self._touch(changes)
        return list(changes.values())

    def _improve(self, changes: dict[int, Change], lag: int) -> None:
        """Quote inside the spread, on the side that follows the target."""
        lots = self._draw_lots()
        is_bid = lag > 0 or (lag == 0 and lots & 1 == 1)
        if is_bid:
            level = min(self.best_ask - 1, max(self.best_bid + 1, self._target - 1))
            self.bids[level] = lots
            self.best_bid = level
        else:
            level = max(self.best_bid + 1, min(self.best_ask - 1, self._target + 1))
            self.asks[level] = lots
            self.best_ask = level
        changes[level] = (is_bid, level, lots, 0)

    def _withdraw(self, changes: dict[int, Change], lag: int) -> None:
        """Cancel the best levels of the side that the target has left far behind."""
        is_bid = lag < 0
        side, step = (self.bids, -1) if is_bid else (self.asks, 1)
        level = self.best_bid if is_bid else self.best_ask
        for _ in range(_MAX_WITHDRAWN):
            if (self._target - level) * step <= 0 or len(side) <= _MIN_LEVELS:
                break
            changes[level] = (is_bid, level, 0, side.pop(level))
            level = _next_level(side, level, step)
        self._set_best(is_bid, level)

    def _touch(self, changes: dict[int, Change]) -> None:
        """Resize, cancel or add one level near the best."""
        bits = self._bits(21)
        is_bid = bits & 1 == 1
        side, step = (self.bids, -1) if is_bid else (self.asks, 1)
        best = self.best_bid if is_bid else self.best_ask
        level = best + step * self._depths[bits >> 1 & 127]
        if level < 1 or level in changes:
            return
        resting = side.get(level, 0)
        if resting and not bits & 0x700 and len(side) > _MIN_LEVELS:
            del side[level]
            changes[level] = (is_bid, level, 0, resting)
            if level == best:
                self._set_best(is_bid, _next_level(side, level, step))
            return
        lots = self._lots[bits >> 11]
        side[level] = lots = lots + (lots == resting)
        changes[level] = (is_bid, level, lots, resting)

    def trim(self) -> list[Change]:
        """Cancel the levels that the market has moved far away from."""
        reach = 2 * self._depth
        low, high = self.best_bid - reach, self.best_ask + reach
        changes = [(True, level, 0, self.bids[level]) for level in self.bids if level < low]
        changes += [(False, level, 0, self.asks[level]) for level in self.asks if level > high]
        for is_bid, level, _, _ in changes:
            del (self.bids if is_bid else self.asks)[level]
        return changes


def _top(side: dict[int, int], best: int, step: int, count: int) -> list[tuple[int, int]]:
    levels = [best]
    for _ in range(min(count, len(side)) - 1):
        levels.append(_next_level(side, levels[-1], step))
    return [(level, side[level]) for level in levels]


def _next_level(side: dict[int, int], level: int, step: int) -> int:
    level += step
    while level not in side:
        level += step
    return level


def _lot_table(rng: Random) -> tuple[int, ...]:
    """Draw order sizes with a long tail: small ones often, hundred times larger ones rarely."""
    return tuple(1 + rng.getrandbits(rng.randrange(3, 12)) for _ in range(_LOT_TABLE_SIZE))
