"""What spot and futures share: stream names, levels, and when a recorder gets its snapshot."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from tardis_machine.sources.simulator.feed import FeedOptions, MarketPlan, SimulatedFeed
from tardis_machine.sources.simulator.market import Change
from tardis_machine.sources.simulator.prices import (
    FixedTexts,
    LevelTexts,
    PriceGrid,
    derived_grid,
    start_price,
)

BOOLEANS = ("false", "true")

_QUOTES = ("usdt", "usdc", "busd", "btc")
_DEPTHS_BEFORE_SNAPSHOT = 4
_DEPTHS_BEFORE_DELIVERY = 2
_GENERATED = ("depthSnapshot", "openInterest")
"""Channels that the venue does not stream: a recorder asks for them."""


def plan_market(symbol: str, grids: Mapping[str, PriceGrid]) -> MarketPlan:
    """Return the market of a pair such as btcusdt."""
    pair = symbol.partition("_")[0]
    quote = next((quote for quote in _QUOTES if pair.endswith(quote)), "")
    base = (pair.removesuffix(quote) or pair).upper()
    price = start_price(base, quote.upper() or "USD")
    return MarketPlan(
        symbol=symbol,
        base=base,
        start_price=price,
        grid=grids.get(symbol) or derived_grid(price),
        depth=250,
        changes_per_event=(1,) * 16 + (2,) * 14 + (3,) * 12 + (5,) * 10 + (8,) * 8 + (14,) * 4,
    )


class CombinedStreamsFeed(SimulatedFeed):
    """Write the messages of one symbol's streams."""

    speeds: ClassVar[Mapping[str, str]]
    """Channel -> what a recorder appends to the names of its streams."""

    def __init__(self, plan: MarketPlan, options: FeedOptions) -> None:
        super().__init__(plan, options)
        self.name = self.symbol.upper()
        self.prices = LevelTexts(self.grid, is_trimmed=False)
        self.amount_decimals = 3 if self.index_start > 100 else 1
        self.amounts = FixedTexts(self.amount_decimals)
        self._depths_until_snapshot: int | None = None
        self._snapshot = ""

    def wrap(self, channel: str, body: str) -> str:
        """Return the message of the combined stream that a recorder subscribes to."""
        generated = '"generated":true,' if channel in _GENERATED else ""
        stream = f"{self.symbol}@{channel}{self.speeds.get(channel, '')}"
        return f'{{"stream":"{stream}",{generated}"data":{body}}}'

    def price_text(self, level: int) -> str:
        """Write the price of a level."""
        return self.prices[level]

    def amount_text(self, lots: int) -> str:
        """Write an amount of lots."""
        return self.amounts[lots]

    def connect(self) -> None:
        """Let depth messages come first; the snapshot is fetched and arrives among them."""
        self._depths_until_snapshot = _DEPTHS_BEFORE_SNAPSHOT
        self._snapshot = ""

    def emit_depth(self, head: str, changes: list[Change], time_us: int) -> None:
        """Write one depth message: its head, then the changed levels."""
        self.emit_book(
            "depth",
            f'{{{head},"b":[{self._levels(changes, is_bid=True)}],'
            f'"a":[{self._levels(changes, is_bid=False)}]}}',
            changes,
            time_us,
        )
        if self._depths_until_snapshot is not None:
            self._move_snapshot_on()

    def _levels(self, changes: list[Change], *, is_bid: bool) -> str:
        prices, amounts = self.prices, self.amounts
        return ",".join(
            [
                f'["{prices[level]}","{amounts[lots]}"]'
                for is_bid_level, level, lots, _ in changes
                if is_bid_level is is_bid
            ]
        )

    def depth_snapshot(self, limit: int | None = None) -> str:
        """Return what the venue answers when asked for the best levels of the book."""
        bids = [(True, level, lots, 0) for level, lots in self.market.sorted_bids()[:limit]]
        asks = [(False, level, lots, 0) for level, lots in self.market.sorted_asks()[:limit]]
        return (
            f'{{"lastUpdateId":{self.book_sequence},{self.snapshot_times()}'
            f'"bids":[{self._levels(bids, is_bid=True)}],'
            f'"asks":[{self._levels(asks, is_bid=False)}]}}'
        )

    @abstractmethod
    def snapshot_times(self) -> str:
        """Return the fields of a snapshot that tell its time."""

    def _move_snapshot_on(self) -> None:
        """Take the snapshot after some depth messages, and deliver it after some more."""
        assert self._depths_until_snapshot is not None
        self._depths_until_snapshot -= 1
        if self._depths_until_snapshot == 0:
            self._snapshot = self.depth_snapshot()
        elif self._depths_until_snapshot == -_DEPTHS_BEFORE_DELIVERY:
            self._deliver_snapshot()

    def _deliver_snapshot(self) -> None:
        self.emit("depthSnapshot", self._snapshot)
        self._depths_until_snapshot = None

    def deliver_late_snapshot(self) -> None:
        """Deliver the snapshot of a quiet market, in which few depth messages came."""
        if self._depths_until_snapshot is not None:
            self._snapshot = self._snapshot or self.depth_snapshot()
            self._deliver_snapshot()
