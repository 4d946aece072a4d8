"""Binance USD-margined futures: trade, depth, bookTicker, markPrice, ticker, forceOrder."""

from collections.abc import Mapping
from typing import ClassVar

from tardis_machine.sources.simulator.binance.streams import (
    BOOLEANS,
    CombinedStreamsFeed,
    plan_market,
)
from tardis_machine.sources.simulator.feed import FeedOptions, MarketPlan
from tardis_machine.sources.simulator.funding import Funding
from tardis_machine.sources.simulator.market import Change, Taken
from tardis_machine.sources.simulator.prices import PriceGrid

_GRIDS = {"btcusdt": PriceGrid(2, 10, 5), "ethusdt": PriceGrid(2, 1, 3)}
_OPEN_INTEREST_SECONDS = 5
_MS_FROM_MATCH_TO_EVENT = 2


def open_feed(symbol: str, options: FeedOptions) -> "BinanceFuturesFeed":
    """Start the market of a symbol."""
    return BinanceFuturesFeed(plan_market(symbol, _GRIDS), options)


class BinanceFuturesFeed(CombinedStreamsFeed):
    """Write one futures symbol."""

    exchange: ClassVar[str] = "binance-futures"
    messages_per_step: ClassVar[float] = 1.8
    speeds: ClassVar[Mapping[str, str]] = {"depth": "@0ms", "markPrice": "@1s"}

    def __init__(self, market_plan: MarketPlan, options: FeedOptions) -> None:
        super().__init__(market_plan, options)
        self._funding = Funding(options.seed, f"binance-futures/{self.symbol}")
        self._open_interest = 70_000_000 + self.rng.getrandbits(24)
        self.book_sequence = 4_000_000_000_000 + self.rng.getrandbits(32)
        self._trade_id = 4_600_000_000 + self.rng.getrandbits(24)
        self._first_trade_id = self._trade_id

    def write_trade(self, taken: Taken) -> None:
        """Write one message per fill, then the depth; a liquidation is reported last."""
        event_ms = self.venue_ms()
        is_maker_buyer = BOOLEANS[not taken.is_buy]
        match_ms = event_ms - _MS_FROM_MATCH_TO_EVENT
        for level, lots in taken.fills:
            self._trade_id += 1
            self.report_trade(self._trade_id, level, lots, taken, match_ms * 1000)
            self.emit(
                "trade",
                f'{{"e":"trade","E":{event_ms},"T":{match_ms},"s":"{self.name}",'
                f'"t":{self._trade_id},"p":"{self.prices[level]}","q":"{self.amounts[lots]}",'
                f'"X":"MARKET","m":{is_maker_buyer}}}',
            )
        self._open_interest += self.rng.getrandbits(6) - 31
        if taken.changes:
            self.write_changes(taken.changes)
        if self.draw_liquidation():
            self._emit_liquidation(taken)

    def _emit_liquidation(self, taken: Taken) -> None:
        event_ms = self.venue_ms()
        amount = self.amounts[sum(lots for _, lots in taken.fills)]
        last_amount = self.amounts[taken.fills[-1][1]]
        self.emit(
            "forceOrder",
            f'{{"e":"forceOrder","E":{event_ms},'
            f'"o":{{"s":"{self.name}","S":"{"BUY" if taken.is_buy else "SELL"}","o":"LIMIT",'
            f'"f":"IOC","q":"{amount}","p":"{self.prices[taken.fills[-1][0]]}",'
            f'"ap":"{self.prices[taken.fills[0][0]]}","X":"FILLED","l":"{last_amount}",'
            f'"z":"{amount}","T":{event_ms - _MS_FROM_MATCH_TO_EVENT}}}}}',
        )

    def write_changes(self, changes: list[Change]) -> None:
        """Write one depth message that joins the one before it."""
        event_ms = self.venue_ms()
        before = self.book_sequence
        first = before + 1 + self.rng.getrandbits(5)
        self.book_sequence = last = first + len(changes) + self.rng.getrandbits(4)
        head = (
            f'"e":"depthUpdate","E":{event_ms},"T":{event_ms - _MS_FROM_MATCH_TO_EVENT},'
            f'"s":"{self.name}","U":{first},"u":{last},"pu":{before}'
        )
        self.emit_depth(head, changes, event_ms * 1000)

    def snapshot_times(self) -> str:
        """Return event and matching time."""
        event_ms = self.venue_ms()
        return f'"E":{event_ms},"T":{event_ms - _MS_FROM_MATCH_TO_EVENT},'

    def write_best(self, best: tuple[int, int, int, int]) -> None:
        """Write a book ticker."""
        bid, bid_lots, ask, ask_lots = best
        event_ms = self.venue_ms()
        self.emit(
            "bookTicker",
            f'{{"e":"bookTicker",'
            f'"u":{self.book_sequence},"s":"{self.name}","b":"{self.prices[bid]}",'
            f'"B":"{self.amounts[bid_lots]}","a":"{self.prices[ask]}",'
            f'"A":"{self.amounts[ask_lots]}","T":{event_ms - _MS_FROM_MATCH_TO_EVENT},'
            f'"E":{event_ms}}}',
        )

    def write_ticker(self) -> None:
        """Write mark price and day statistics, and now and then the open interest."""
        self.deliver_late_snapshot()
        self._emit_mark_price()
        self._emit_day_statistics()
        if self.clock.index % _OPEN_INTEREST_SECONDS == 0:
            self.emit("openInterest", self.open_interest())

    def open_interest(self) -> str:
        """Return what the venue answers when asked for the open interest."""
        decimals = self.amount_decimals
        amount = f"{self._open_interest / 10**decimals:.{decimals}f}"
        return f'{{"symbol":"{self.name}","openInterest":"{amount}","time":{self.venue_ms()}}}'

    def _emit_mark_price(self) -> None:
        second = self.clock.index
        mark, index = self.mark_price, self.index_price
        self.emit(
            "markPrice",
            f'{{"e":"markPriceUpdate",'
            f'"E":{self.venue_ms()},"s":"{self.name}","p":"{mark:.8f}","P":"{index:.8f}",'
            f'"i":"{index:.8f}","r":"{self._funding.rate(second):.8f}",'
            f'"T":{self._funding.next_second(second) * 1000}}}',
        )

    def _emit_day_statistics(self) -> None:
        event_ms = self.venue_ms()
        level, lots, _ = self.last_trade
        trades = self._trade_id - self._first_trade_id
        last, first = self.grid.price(level), self.grid.price(self.day_open)
        volume = trades * 0.05
        self.emit(
            "ticker",
            f'{{"e":"24hrTicker","E":{event_ms},'
            f'"s":"{self.name}","p":"{self.float_text(last - first)}",'
            f'"P":"{(last / first - 1) * 100:.3f}","w":"{self.float_text((last + first) / 2)}",'
            f'"c":"{self.prices[level]}","Q":"{self.amounts[lots]}",'
            f'"o":"{self.prices[self.day_open]}","h":"{self.prices[self.day_high]}",'
            f'"l":"{self.prices[self.day_low]}","v":"{volume:.3f}","q":"{volume * last:.2f}",'
            f'"O":{event_ms - 86_400_000},"C":{event_ms},"F":{self._first_trade_id + 1},'
            f'"L":{self._trade_id},"n":{trades}}}',
        )
