"""Binance spot: trade, depth, bookTicker, ticker; times in microseconds."""

from collections.abc import Mapping
from typing import ClassVar

from tardis_machine.sources.simulator.binance.streams import (
    BOOLEANS,
    CombinedStreamsFeed,
    plan_market,
)
from tardis_machine.sources.simulator.feed import FeedOptions, MarketPlan
from tardis_machine.sources.simulator.market import Change, Taken
from tardis_machine.sources.simulator.prices import PriceGrid

_GRIDS = {"btcusdt": PriceGrid(8, 1_000_000, 50), "ethusdt": PriceGrid(8, 1_000_000, 3)}
_US_FROM_MATCH_TO_EVENT = 250
_DAY_US = 86_400_000_000


def open_feed(symbol: str, options: FeedOptions) -> "BinanceSpotFeed":
    """Start the market of a symbol."""
    return BinanceSpotFeed(plan_market(symbol, _GRIDS), options)


class BinanceSpotFeed(CombinedStreamsFeed):
    """Write one spot symbol; update ids have no holes."""

    exchange: ClassVar[str] = "binance"
    messages_per_step: ClassVar[float] = 1.8
    speeds: ClassVar[Mapping[str, str]] = {"depth": "@100ms"}
    time_unit_us: ClassVar[int] = 1

    def __init__(self, market_plan: MarketPlan, options: FeedOptions) -> None:
        super().__init__(market_plan, options)
        self.book_sequence = 50_000_000_000 + self.rng.getrandbits(32)
        self._trade_id = 3_900_000_000 + self.rng.getrandbits(24)
        self._first_trade_id = self._trade_id

    def write_trade(self, taken: Taken) -> None:
        """Write one message per fill, then the depth."""
        event_us = self.venue_us()
        match_us = event_us - _US_FROM_MATCH_TO_EVENT
        for level, lots in taken.fills:
            self._trade_id += 1
            self.report_trade(self._trade_id, level, lots, taken, match_us)
            self.emit(
                "trade",
                f'{{"e":"trade","E":{event_us},"s":"{self.name}","t":{self._trade_id},'
                f'"p":"{self.prices[level]}","q":"{self.amounts[lots]}","T":{match_us},'
                f'"m":{BOOLEANS[not taken.is_buy]},"M":true}}',
            )
        if taken.changes:
            self.write_changes(taken.changes)

    def write_changes(self, changes: list[Change]) -> None:
        """Write one depth message that starts where the one before it ended."""
        event_us = self.venue_us()
        first = self.book_sequence + 1
        self.book_sequence = last = first + len(changes) + self.rng.getrandbits(4)
        head = f'"e":"depthUpdate","E":{event_us},"s":"{self.name}","U":{first},"u":{last}'
        self.emit_depth(head, changes, event_us)

    def snapshot_times(self) -> str:
        """Return nothing: a snapshot of this venue has no time."""
        return ""

    def write_best(self, best: tuple[int, int, int, int]) -> None:
        """Write a book ticker, which has no time either."""
        bid, bid_lots, ask, ask_lots = best
        self.emit(
            "bookTicker",
            f'{{"u":{self.book_sequence},"s":"{self.name}","b":"{self.prices[bid]}",'
            f'"B":"{self.amounts[bid_lots]}","a":"{self.prices[ask]}",'
            f'"A":"{self.amounts[ask_lots]}"}}',
        )

    def write_ticker(self) -> None:
        """Write day statistics."""
        self.deliver_late_snapshot()
        event_us = self.venue_us()
        level, lots, _ = self.last_trade
        trades = self._trade_id - self._first_trade_id
        last, first = self.grid.price(level), self.grid.price(self.day_open)
        bid, bid_lots, ask, ask_lots = self.market.best()
        self.emit(
            "ticker",
            f'{{"e":"24hrTicker","E":{event_us},"s":"{self.name}",'
            f'"p":"{self.float_text(last - first)}","P":"{(last / first - 1) * 100:.3f}",'
            f'"w":"{self.float_text((last + first) / 2)}","x":"{self.prices[self.day_open]}",'
            f'"c":"{self.prices[level]}","Q":"{self.amounts[lots]}",'
            f'"b":"{self.prices[bid]}","B":"{self.amounts[bid_lots]}",'
            f'"a":"{self.prices[ask]}","A":"{self.amounts[ask_lots]}",'
            f'"o":"{self.prices[self.day_open]}","h":"{self.prices[self.day_high]}",'
            f'"l":"{self.prices[self.day_low]}","v":"{trades * 0.05:.8f}",'
            f'"q":"{trades * 0.05 * last:.8f}","O":{event_us - _DAY_US},"C":{event_us},'
            f'"F":{self._first_trade_id + 1},"L":{self._trade_id},"n":{trades}}}',
        )
