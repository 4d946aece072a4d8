"""Binance USD-margined futures traffic: combined streams, with generated REST answers."""

from typing import ClassVar

from tardis_machine.sources.simulator.feed import FeedOptions, MarketPlan, SimulatedFeed
from tardis_machine.sources.simulator.funding import Funding
from tardis_machine.sources.simulator.market import Change, Taken
from tardis_machine.sources.simulator.prices import (
    FixedTexts,
    LevelTexts,
    PriceGrid,
    derived_grid,
    start_price,
)

_GRIDS = {"btcusdt": PriceGrid(2, 10, 5), "ethusdt": PriceGrid(2, 1, 3)}
_QUOTES = ("usdt", "usdc", "busd", "btc")
_OPEN_INTEREST_SECONDS = 5
_DEPTHS_BEFORE_SNAPSHOT = 4
_DEPTHS_BEFORE_DELIVERY = 2
_MS_FROM_MATCH_TO_EVENT = 2
_BOOLEANS = ("false", "true")


def open_feed(symbol: str, options: FeedOptions) -> SimulatedFeed:
    """Start the market of a symbol."""
    return BinanceFuturesFeed(_plan(symbol), options)


def _plan(symbol: str) -> MarketPlan:
    pair = symbol.partition("_")[0]
    quote = next((quote for quote in _QUOTES if pair.endswith(quote)), "")
    base = (pair.removesuffix(quote) or pair).upper()
    price = start_price(base, quote.upper() or "USD")
    return MarketPlan(
        symbol=symbol,
        base=base,
        start_price=price,
        grid=_GRIDS.get(symbol) or derived_grid(price),
        depth=250,
        changes_per_event=(1,) * 16 + (2,) * 14 + (3,) * 12 + (5,) * 10 + (8,) * 8 + (14,) * 4,
    )


class BinanceFuturesFeed(SimulatedFeed):
    """Write one futures symbol: trade, depth, bookTicker, markPrice, ticker, forceOrder."""

    exchange: ClassVar[str] = "binance-futures"
    messages_per_step: ClassVar[float] = 1.8

    def __init__(self, market_plan: MarketPlan, options: FeedOptions) -> None:
        super().__init__(market_plan, options)
        self._name = self.symbol.upper()
        self._prices = LevelTexts(self.grid, is_trimmed=False)
        self._amount_decimals = 3 if self.index_start > 100 else 1
        self._amounts = FixedTexts(self._amount_decimals)
        self._funding = Funding(options.seed, f"binance-futures/{self.symbol}")
        self._open_interest = 70_000_000 + self.rng.getrandbits(24)
        self._update_id = 4_000_000_000_000 + self.rng.getrandbits(32)
        self._trade_id = 4_600_000_000 + self.rng.getrandbits(24)
        self._first_trade_id = self._trade_id
        self._depths_until_snapshot: int | None = None
        self._snapshot = ""

    def connect(self) -> None:
        """Let depth messages come first; the snapshot is fetched and arrives among them."""
        self._depths_until_snapshot = _DEPTHS_BEFORE_SNAPSHOT
        self._snapshot = ""

    def write_trade(self, taken: Taken) -> None:
        """Write one message per fill, then the depth; a liquidation is reported last."""
        event_ms = self.venue_ms()
        is_maker_buyer = _BOOLEANS[not taken.is_buy]
        for level, lots in taken.fills:
            self._trade_id += 1
            self.emit(
                f'{{"stream":"{self.symbol}@trade","data":{{"e":"trade","E":{event_ms},'
                f'"T":{event_ms - _MS_FROM_MATCH_TO_EVENT},"s":"{self._name}",'
                f'"t":{self._trade_id},"p":"{self._prices[level]}","q":"{self._amounts[lots]}",'
                f'"X":"MARKET","m":{is_maker_buyer}}}}}'
            )
        self._open_interest += self.rng.getrandbits(6) - 31
        if taken.changes:
            self.write_changes(taken.changes)
        if self.draw_liquidation():
            self._emit_liquidation(taken)

    def _emit_liquidation(self, taken: Taken) -> None:
        event_ms = self.venue_ms()
        amount = self._amounts[sum(lots for _, lots in taken.fills)]
        last_amount = self._amounts[taken.fills[-1][1]]
        self.emit(
            f'{{"stream":"{self.symbol}@forceOrder","data":{{"e":"forceOrder","E":{event_ms},'
            f'"o":{{"s":"{self._name}","S":"{"BUY" if taken.is_buy else "SELL"}","o":"LIMIT",'
            f'"f":"IOC","q":"{amount}","p":"{self._prices[taken.fills[-1][0]]}",'
            f'"ap":"{self._prices[taken.fills[0][0]]}","X":"FILLED","l":"{last_amount}",'
            f'"z":"{amount}","T":{event_ms - _MS_FROM_MATCH_TO_EVENT}}}}}}}'
        )

    def write_changes(self, changes: list[Change]) -> None:
        """Write one depth message that joins the one before it."""
        event_ms = self.venue_ms()
        before = self._update_id
        first = before + 1 + self.rng.getrandbits(5)
        self._update_id = last = first + len(changes) + self.rng.getrandbits(4)
        self.emit(
            f'{{"stream":"{self.symbol}@depth@0ms","data":{{"e":"depthUpdate","E":{event_ms},'
            f'"T":{event_ms - _MS_FROM_MATCH_TO_EVENT},"s":"{self._name}","U":{first},"u":{last},'
            f'"pu":{before},"b":[{self._levels(changes, is_bid=True)}],'
            f'"a":[{self._levels(changes, is_bid=False)}]}}}}'
        )
        if self._depths_until_snapshot is not None:
            self._move_snapshot_on()

    def _levels(self, changes: list[Change], *, is_bid: bool) -> str:
        prices, amounts = self._prices, self._amounts
        return ",".join(
            [
                f'["{prices[level]}","{amounts[lots]}"]'
                for is_bid_level, level, lots, _ in changes
                if is_bid_level is is_bid
            ]
        )

    def _move_snapshot_on(self) -> None:
        """Take the snapshot after some depth messages, and deliver it after some more."""
        assert self._depths_until_snapshot is not None
        self._depths_until_snapshot -= 1
        if self._depths_until_snapshot == 0:
            self._take_snapshot()
        elif self._depths_until_snapshot == -_DEPTHS_BEFORE_DELIVERY:
            self._deliver_snapshot()

    def _take_snapshot(self) -> None:
        event_ms = self.venue_ms()
        bids = [(True, level, lots, 0) for level, lots in self.market.sorted_bids()]
        asks = [(False, level, lots, 0) for level, lots in self.market.sorted_asks()]
        self._snapshot = (
            f'{{"stream":"{self.symbol}@depthSnapshot","generated":true,'
            f'"data":{{"lastUpdateId":{self._update_id},"E":{event_ms},'
            f'"T":{event_ms - _MS_FROM_MATCH_TO_EVENT},"bids":[{self._levels(bids, is_bid=True)}],'
            f'"asks":[{self._levels(asks, is_bid=False)}]}}}}'
        )

    def _deliver_snapshot(self) -> None:
        self.emit(self._snapshot)
        self._depths_until_snapshot = None

    def write_best(self, best: tuple[int, int, int, int]) -> None:
        """Write a book ticker."""
        bid, bid_lots, ask, ask_lots = best
        event_ms = self.venue_ms()
        self.emit(
            f'{{"stream":"{self.symbol}@bookTicker","data":{{"e":"bookTicker",'
            f'"u":{self._update_id},"s":"{self._name}","b":"{self._prices[bid]}",'
            f'"B":"{self._amounts[bid_lots]}","a":"{self._prices[ask]}",'
            f'"A":"{self._amounts[ask_lots]}","T":{event_ms - _MS_FROM_MATCH_TO_EVENT},'
            f'"E":{event_ms}}}}}'
        )

    def write_ticker(self) -> None:
        """Write mark price and day statistics, and now and then the open interest."""
        if self._depths_until_snapshot is not None:
            if not self._snapshot:
                self._take_snapshot()
            self._deliver_snapshot()
        self._emit_mark_price()
        self._emit_day_statistics()
        if self.clock.index % _OPEN_INTEREST_SECONDS == 0:
            amount = self._amount_text(self._open_interest)
            self.emit(
                f'{{"stream":"{self.symbol}@openInterest","generated":true,'
                f'"data":{{"symbol":"{self._name}","openInterest":"{amount}",'
                f'"time":{self.venue_ms()}}}}}'
            )

    def _emit_mark_price(self) -> None:
        second = self.clock.index
        mark, index = self.mark_price, self.index_price
        self.emit(
            f'{{"stream":"{self.symbol}@markPrice@1s","data":{{"e":"markPriceUpdate",'
            f'"E":{self.venue_ms()},"s":"{self._name}","p":"{mark:.8f}","P":"{index:.8f}",'
            f'"i":"{index:.8f}","r":"{self._funding.rate(second):.8f}",'
            f'"T":{self._funding.next_second(second) * 1000}}}}}'
        )

    def _emit_day_statistics(self) -> None:
        event_ms = self.venue_ms()
        level, lots, _ = self.last_trade
        trades = self._trade_id - self._first_trade_id
        last, first = self.grid.price(level), self.grid.price(self.day_open)
        volume = trades * 0.05
        self.emit(
            f'{{"stream":"{self.symbol}@ticker","data":{{"e":"24hrTicker","E":{event_ms},'
            f'"s":"{self._name}","p":"{self.float_text(last - first)}",'
            f'"P":"{(last / first - 1) * 100:.3f}","w":"{self.float_text((last + first) / 2)}",'
            f'"c":"{self._prices[level]}","Q":"{self._amounts[lots]}",'
            f'"o":"{self._prices[self.day_open]}","h":"{self._prices[self.day_high]}",'
            f'"l":"{self._prices[self.day_low]}","v":"{volume:.3f}","q":"{volume * last:.2f}",'
            f'"O":{event_ms - 86_400_000},"C":{event_ms},"F":{self._first_trade_id + 1},'
            f'"L":{self._trade_id},"n":{trades}}}}}'
        )

    def _amount_text(self, units: int) -> str:
        return f"{units / 10**self._amount_decimals:.{self._amount_decimals}f}"
