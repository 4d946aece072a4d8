"""What a symbol has sent: its book after each of the latest updates, and the latest trades."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tardis_machine.sources.simulator.listener import Fill
from tardis_machine.sources.simulator.market import Change, Market


class Update(NamedTuple):
    """One book message: its number, the venue's time, the levels it changed."""

    sequence: int
    time_us: int
    changes: Sequence[Change]


class BookState(NamedTuple):
    """A whole book after an update: level -> lots."""

    sequence: int
    time_us: int
    bids: dict[int, int]
    asks: dict[int, int]


class BookHistory:
    """Keeps the oldest book and every update since, at most `limit` of them."""

    def __init__(self, market: Market, sequence: int, time_us: int, limit: int) -> None:
        self._oldest = BookState(sequence, time_us, dict(market.bids), dict(market.asks))
        self._updates: deque[Update] = deque()
        self.limit = limit

    @property
    def oldest(self) -> tuple[int, int]:
        """Return number and time of the oldest book that is still known."""
        return self._oldest.sequence, self._oldest.time_us

    @property
    def latest(self) -> tuple[int, int]:
        """Return number and time of the latest update."""
        if not self._updates:
            return self.oldest
        return self._updates[-1].sequence, self._updates[-1].time_us

    def add(self, update: Update) -> None:
        """Keep one more update; the oldest one beyond the limit becomes part of the oldest book."""
        self._updates.append(update)
        if len(self._updates) > self.limit:
            self._oldest = _after(self._oldest, self._updates.popleft())

    def at_sequence(self, sequence: int) -> BookState:
        """Return the book after the last update whose number is at most `sequence`."""
        return self._replay([update for update in self._updates if update.sequence <= sequence])

    def at_time(self, time_us: int) -> BookState:
        """Return the book after the last update that the venue dated at or before a time."""
        return self._replay([update for update in self._updates if update.time_us <= time_us])

    def _replay(self, updates: list[Update]) -> BookState:
        oldest = self._oldest
        state = BookState(*oldest[:2], dict(oldest.bids), dict(oldest.asks))
        for update in updates:
            state = _after(state, update)
        return state


class TradeHistory:
    """Keeps the latest trades, at most `limit` of them, and the number of all."""

    def __init__(self, limit: int) -> None:
        self.latest: deque[Fill] = deque(maxlen=limit)
        self.count = 0

    def add(self, fill: Fill) -> None:
        """Keep one more trade."""
        self.latest.append(fill)
        self.count += 1


def _after(state: BookState, update: Update) -> BookState:
    """Apply an update to a book in place, and return it under its new number."""
    for is_bid, level, lots, _ in update.changes:
        side = state.bids if is_bid else state.asks
        if lots:
            side[level] = lots
        else:
            side.pop(level, None)
    return BookState(update.sequence, update.time_us, state.bids, state.asks)
