"""One symbol on one exchange: the second-by-second loop that every venue shares."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from tardis_machine.sources.simulator.clock import (
    UNITS_PER_MS,
    UNITS_PER_SECOND,
    UNITS_PER_US,
    Second,
)
from tardis_machine.sources.simulator.listener import Fill, Listener
from tardis_machine.sources.simulator.market import Change, Market, Taken
from tardis_machine.sources.simulator.prices import IndexPath, PriceGrid

MAX_MESSAGES_PER_SECOND = 20_000

_MAX_MESSAGES_PER_STEP = 16
_MAX_STEPS_PER_SECOND = 60_000
_LIQUIDATION_ODDS = 3
"""How many of 256 trades are liquidations: more than real, so that short runs have some."""
_CONNECTED_UNITS = 50 * UNITS_PER_MS


@dataclass(frozen=True, kw_only=True)
class MarketPlan:
    """What a venue knows about one symbol before its market opens."""

    symbol: str
    base: str
    start_price: float
    grid: PriceGrid
    depth: int
    changes_per_event: tuple[int, ...]
    index_price: float | None = None
    """Where the index starts. None: at the market's own price."""
    activity: float = 1.0
    """Share of the asked rate that this market gets."""


@dataclass(frozen=True, kw_only=True)
class FeedOptions:
    """What every feed of a simulation shares."""

    seed: int
    rate: float
    start_second: int
    is_lossy: bool = False


class SimulatedFeed(ABC):
    """Turn the events of one market into the messages of one venue.

    A subclass writes wire text; this class decides when things happen. Messages of a feed have
    strictly increasing local times, so the lines of several feeds merge by sorting their text.
    """

    exchange: ClassVar[str]
    messages_per_step: ClassVar[float]
    trade_odds: ClassVar[int] = 36
    """How many of 256 market events are trades."""
    time_unit_us: ClassVar[int] = 1000
    """The precision of the venue's times."""

    def __init__(self, plan: MarketPlan, options: FeedOptions) -> None:
        self.symbol = plan.symbol
        self.grid = plan.grid
        self.options = options
        self.rng = Random(f"{options.seed}/{self.exchange}/{plan.symbol}")  # noqa: S311
        self.index_start = plan.start_price if plan.index_price is None else plan.index_price
        self.index_price = self.index_start
        self.mark_price = plan.start_price
        self._index = IndexPath(options.seed, plan.base)
        self.market = Market(
            self.rng,
            plan.grid.level(plan.start_price),
            plan.depth,
            plan.changes_per_event,
            is_lossy=options.is_lossy,
        )
        self.last_trade = (self.market.best_bid, 1, True)
        self.day_open = self.day_high = self.day_low = self.market.best_bid
        self.latency_units = self.rng.randrange(3, 25) * UNITS_PER_MS + self.rng.randrange(5_000)
        self.clock = Second(options.start_second)
        self.listener: Listener | None = None
        self.book_sequence = 0
        """Number of the last book message: the venue's, or a count where it has none."""
        self._steps_per_second = options.rate * plan.activity / self.messages_per_step
        self._best = self.market.best()
        self._lines: list[str] = []
        self._offset = 0
        self._gap = 1

    def run_second(self, clock: Second, *, is_connecting: bool) -> list[str]:
        """Return the lines of one second, in order; a new connection starts with snapshots."""
        self._lines = []
        for _ in self.steps(clock, is_connecting=is_connecting):
            pass
        return self._lines

    def steps(self, clock: Second, *, is_connecting: bool) -> Iterator[int]:
        """Yield when each event of one second is due, in units of that second, before it happens.

        Who asks for the next one lets the event happen; between two the market stands still.
        """
        self.clock = clock
        self._index.advance()
        self.index_price = self.index_start * self._index.factor
        self.mark_price = self.reprice()
        self.market.aim(self.grid.level(self.fair_price()))
        start = self._open(is_connecting=is_connecting)
        random = self.rng.random
        steps = int(self._steps_per_second * self._index.intensity + random())
        slots = min(steps, _MAX_STEPS_PER_SECOND) + 1
        width = (UNITS_PER_SECOND - start) / slots
        # Steps keep a tenth of their slot free, so that all messages of a step fit before the next.
        self._gap = max(1, int(width / 10 / _MAX_MESSAGES_PER_STEP))
        refresh_slot = int(random() * slots)
        for slot in range(slots):
            offset = start + int((slot + 0.9 * random()) * width)
            yield offset
            self._offset = offset
            if slot == refresh_slot:
                self.refresh()
            else:
                self._step()

    def _open(self, *, is_connecting: bool) -> int:
        self._offset = UNITS_PER_MS
        if not is_connecting:
            return 0
        self._gap = UNITS_PER_MS
        self.connect()
        return _CONNECTED_UNITS

    def _step(self) -> None:
        if self.rng.getrandbits(8) < self.trade_odds:
            taken = self.market.take()
            self._note_trade(taken)
            self.write_trade(taken)
        else:
            changes = self.market.change()
            if changes:
                self.write_changes(changes)
        best = self.market.best()
        if best != self._best:
            self._best = best
            self.write_best(best)

    def _note_trade(self, taken: Taken) -> None:
        level, lots = taken.fills[-1]
        self.last_trade = (level, lots, taken.is_buy)
        self.day_high = max(self.day_high, level)
        self.day_low = min(self.day_low, level)

    def refresh(self) -> None:
        """Write what a venue sends about once per second, after clearing far levels."""
        changes = self.market.trim()
        if changes:
            self.write_changes(changes)
        self.write_ticker()

    def emit(self, channel: str, body: str) -> None:
        """Send one message at the current time, and move the time on a little."""
        if self.listener is None:
            message = self.wrap(channel, body)
            self._lines.append(f"{self.clock.text}{self._offset:07d}Z {message}\n")
        else:
            self.listener.take_message(channel, body)
        self._offset += self._gap

    def wrap(self, channel: str, body: str) -> str:
        """Return the whole message as a recorder receives it."""
        return body

    def emit_book(
        self, channel: str, body: str, changes: Sequence[Change], time_us: int | None = None
    ) -> None:
        """Send a message that changes the book; `book_sequence` is its number.

        Without a time of the venue it is dated now.
        """
        if self.listener is not None:
            dated_us = self.venue_us() if time_us is None else time_us
            self.listener.take_book(self.book_sequence, dated_us, changes)
        self.emit(channel, body)

    def report_trade(
        self, trade_id: str | int, level: int, lots: int, taken: Taken, time_us: int | None = None
    ) -> None:
        """Tell the listener of a trade that is about to be sent."""
        if self.listener is not None:
            dated_us = self.venue_us() if time_us is None else time_us
            self.listener.take_trade(Fill(str(trade_id), dated_us, level, lots, taken.is_buy))

    def draw_liquidation(self) -> bool:
        """Say whether the taker order at hand closes a liquidated position."""
        return self.rng.getrandbits(8) < _LIQUIDATION_ODDS

    def draw_guid(self) -> str:
        """Return a new id in the usual five groups of hexadecimal digits."""
        digits = f"{self.rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def venue_ms(self) -> int:
        """Return the exchange's time of what happens now, in epoch milliseconds."""
        return self.clock.ms + (self._offset - self.latency_units) // UNITS_PER_MS

    def venue_us(self) -> int:
        """Return the exchange's time of what happens now, in microseconds as precise as it is."""
        now_us = self.clock.ms * 1000 + (self._offset - self.latency_units) // UNITS_PER_US
        return now_us - now_us % self.time_unit_us

    def venue_text(self, units_per_digit: int, digits: int) -> str:
        """Return the exchange's time of what happens now as ISO text."""
        offset = self._offset - self.latency_units
        if offset < 0:
            rest = (offset + UNITS_PER_SECOND) // units_per_digit
            return f"{self.clock.previous_text}{rest:0{digits}d}Z"
        return f"{self.clock.text}{offset // units_per_digit:0{digits}d}Z"

    def reprice(self) -> float:
        """Return the mark price of this second: between the index and the middle of the book."""
        bid, ask = self.grid.price(self.market.best_bid), self.grid.price(self.market.best_ask)
        return (bid + ask) / 4 + self.index_price / 2

    def fair_price(self) -> float:
        """Return the price the market is drawn to."""
        return self.index_price

    def float_text(self, price: float) -> str:
        """Write a price that is not on the grid, such as an index, with two decimals or more."""
        return f"{price:.{max(2, self.grid.decimals)}f}"

    @abstractmethod
    def price_text(self, level: int) -> str:
        """Write the price of a level as the venue does."""

    @abstractmethod
    def amount_text(self, lots: int) -> str:
        """Write an amount of lots as the venue does."""

    @abstractmethod
    def connect(self) -> None:
        """Write what a recorder receives right after it subscribed: at most 16 messages."""

    @abstractmethod
    def write_trade(self, taken: Taken) -> None:
        """Write the messages of one taker order, trades before book changes."""

    @abstractmethod
    def write_changes(self, changes: list[Change]) -> None:
        """Write the messages of changed levels."""

    @abstractmethod
    def write_best(self, best: tuple[int, int, int, int]) -> None:
        """Write what the venue sends when its best bid or ask changed."""

    @abstractmethod
    def write_ticker(self) -> None:
        """Write what the venue sends about once per second."""
