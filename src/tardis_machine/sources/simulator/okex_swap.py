"""OKX perpetual swaps in protocol v5: pushes of channels, numbers as text, times in ms."""

import zlib
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

LIQUIDATIONS = "liquidation-orders"
INDEX = "index-tickers"

_GRIDS = {"BTC-USDT-SWAP": PriceGrid(1, 1, 5), "ETH-USDT-SWAP": PriceGrid(2, 1, 3)}
_AMOUNT_DECIMALS = 2
_CHECKED_LEVELS = 25
_OPEN_INTEREST_SECONDS = 3
_FUNDING_SECONDS = 30
_MS_PER_FUNDING = 8 * 3_600_000
_SIDES = ("sell", "buy")
_POSITIONS = ("long", "short")


def open_feed(symbol: str, options: FeedOptions) -> "OkexSwapFeed":
    """Start the market of a symbol."""
    return OkexSwapFeed(_plan(symbol), options)


def _plan(symbol: str) -> MarketPlan:
    base, _, rest = symbol.partition("-")
    price = start_price(base, rest.partition("-")[0].partition("_")[0] or "USDT")
    return MarketPlan(
        symbol=symbol,
        base=base,
        start_price=price,
        grid=_GRIDS.get(symbol) or derived_grid(price),
        # The venue's books have 400 levels a side: so many are never reached.
        depth=120,
        changes_per_event=(1,) * 24 + (2,) * 16 + (3,) * 12 + (5,) * 8 + (9,) * 4,
    )


class OkexSwapFeed(SimulatedFeed):
    """Write one swap: trades-all, books, bbo-tbt, tickers, mark, index, funding, open interest.

    A body is what follows the argument of a push.
    """

    exchange: ClassVar[str] = "okex-swap"
    messages_per_step: ClassVar[float] = 1.8

    def __init__(self, market_plan: MarketPlan, options: FeedOptions) -> None:
        super().__init__(market_plan, options)
        self.index_symbol = "-".join(self.symbol.split("-")[:2]).partition("_")[0]
        self._prices = LevelTexts(self.grid, is_trimmed=True)
        self._amounts = FixedTexts(_AMOUNT_DECIMALS)
        self._funding = Funding(options.seed, f"okex-swap/{self.symbol}")
        self._open_interest = 200_000_000 + self.rng.getrandbits(24)
        self.book_sequence = 30_000_000_000 + self.rng.getrandbits(28)
        self._trade_id = 900_000_000 + self.rng.getrandbits(24)

    def wrap(self, channel: str, body: str) -> str:
        """Return the push that a recorder receives."""
        if channel == LIQUIDATIONS:
            return push('{"channel":"liquidation-orders","instType":"SWAP"}', body)
        symbol = self.index_symbol if channel == INDEX else self.symbol
        return push(f'{{"channel":"{channel}","instId":"{symbol}"}}', body)

    def price_text(self, level: int) -> str:
        """Write the price of a level."""
        return self._prices[level]

    def amount_text(self, lots: int) -> str:
        """Write an amount of lots."""
        return self._amounts[lots]

    def connect(self) -> None:
        """Write the book, and the state of every other channel."""
        for channel in ("books", "bbo-tbt", "tickers", "mark-price", INDEX, "funding-rate"):
            self.emit(channel, self.state(channel))
        self.emit("open-interest", self.state("open-interest"))

    def state(self, channel: str) -> str:
        """Return what a new subscription of a channel starts with; empty where nothing is sent."""
        writers = {
            "books": self._book_snapshot,
            "bbo-tbt": self._best_push,
            "tickers": self._ticker,
            "mark-price": self._mark_price,
            INDEX: self._index_push,
            "funding-rate": self._funding_rate,
            "open-interest": self._open_contracts,
        }
        writer = writers.get(channel)
        return writer() if writer is not None else ""

    def write_trade(self, taken: Taken) -> None:
        """Write one push per fill, then the book; a liquidation is reported last."""
        side = _SIDES[taken.is_buy]
        for level, lots in taken.fills:
            self._trade_id += 1
            self.report_trade(self._trade_id, level, lots, taken)
            self.emit(
                "trades-all",
                f'"data":[{{"instId":"{self.symbol}","tradeId":"{self._trade_id}",'
                f'"px":"{self._prices[level]}","sz":"{self._amounts[lots]}","side":"{side}",'
                f'"source":"0","ts":"{self.venue_ms()}"}}]',
            )
        self._open_interest += self.rng.getrandbits(6) - 31
        if taken.changes:
            self.write_changes(taken.changes)
        if self.draw_liquidation():
            self._emit_liquidation(taken)

    def _emit_liquidation(self, taken: Taken) -> None:
        level, _ = taken.fills[-1]
        amount = self._amounts[sum(lots for _, lots in taken.fills)]
        self.emit(
            LIQUIDATIONS,
            f'"data":[{{"details":[{{"bkLoss":"0","bkPx":"{self._prices[level]}","ccy":"",'
            f'"posSide":"{_POSITIONS[taken.is_buy]}","side":"{_SIDES[taken.is_buy]}",'
            f'"sz":"{amount}","ts":"{self.venue_ms()}"}}],"instFamily":"{self.index_symbol}",'
            f'"instId":"{self.symbol}","instType":"SWAP","uly":"{self.index_symbol}"}}]',
        )

    def write_changes(self, changes: list[Change]) -> None:
        """Write one update of the book, which names the one before it."""
        before = self.book_sequence
        self.book_sequence = before + 1 + self.rng.getrandbits(4)
        bids = [(level, lots) for is_bid, level, lots, _ in changes if is_bid]
        asks = [(level, lots) for is_bid, level, lots, _ in changes if not is_bid]
        body = self._book("update", bids, asks, before)
        self.emit_book("books", body, changes)

    def _book_snapshot(self) -> str:
        return self._book("snapshot", self.market.sorted_bids(), self.market.sorted_asks(), -1)

    def _book(
        self, action: str, bids: list[tuple[int, int]], asks: list[tuple[int, int]], before: int
    ) -> str:
        return (
            f'"action":"{action}","data":[{{"asks":[{self._levels(asks)}],'
            f'"bids":[{self._levels(bids)}],"ts":"{self.venue_ms()}",'
            f'"checksum":{self.checksum()},"prevSeqId":{before},"seqId":{self.book_sequence}}}]'
        )

    def _levels(self, levels: list[tuple[int, int]]) -> str:
        prices, amounts = self._prices, self._amounts
        return ",".join(
            [
                f'["{prices[level]}","{amounts[lots]}","0","{1 if lots else 0}"]'
                for level, lots in levels
            ]
        )

    def checksum(self) -> int:
        """Return the signed CRC32 of the best 25 levels, bid and ask in turns."""
        bids = self.market.top_bids(_CHECKED_LEVELS)
        asks = self.market.top_asks(_CHECKED_LEVELS)
        parts = []
        for place in range(max(len(bids), len(asks))):
            for level, lots in (*bids[place : place + 1], *asks[place : place + 1]):
                parts.append(f"{self._prices[level]}:{self._amounts[lots]}")
        value = zlib.crc32(":".join(parts).encode())
        return value - 2**32 if value >= 2**31 else value

    def write_best(self, best: tuple[int, int, int, int]) -> None:
        """Write the best bid and ask."""
        self.emit("bbo-tbt", self._best_push())

    def _best_push(self) -> str:
        bid, bid_lots, ask, ask_lots = self.market.best()
        return (
            f'"data":[{{"asks":[{self._levels([(ask, ask_lots)])}],'
            f'"bids":[{self._levels([(bid, bid_lots)])}],"ts":"{self.venue_ms()}",'
            f'"seqId":{self.book_sequence}}}]'
        )

    def write_ticker(self) -> None:
        """Write ticker, mark price and index every second, the others now and then."""
        for channel in ("tickers", "mark-price", INDEX):
            self.emit(channel, self.state(channel))
        if self.clock.index % _OPEN_INTEREST_SECONDS == 0:
            self.emit("open-interest", self._open_contracts())
        if self.clock.index % _FUNDING_SECONDS == 0:
            self.emit("funding-rate", self._funding_rate())

    def _instrument(self) -> str:
        return f'"instType":"SWAP","instId":"{self.symbol}","ts":"{self.venue_ms()}"'

    def _ticker(self) -> str:
        bid, bid_lots, ask, ask_lots = self.market.best()
        level, lots, _ = self.last_trade
        prices, amounts = self._prices, self._amounts
        return (
            f'"data":[{{{self._instrument()},"last":"{prices[level]}","lastSz":"{amounts[lots]}",'
            f'"askPx":"{prices[ask]}","askSz":"{amounts[ask_lots]}","bidPx":"{prices[bid]}",'
            f'"bidSz":"{amounts[bid_lots]}","open24h":"{prices[self.day_open]}",'
            f'"high24h":"{prices[self.day_high]}","low24h":"{prices[self.day_low]}"}}]'
        )

    def _mark_price(self) -> str:
        return f'"data":[{{{self._instrument()},"markPx":"{self.float_text(self.mark_price)}"}}]'

    def _index_push(self) -> str:
        return (
            f'"data":[{{"instId":"{self.index_symbol}",'
            f'"idxPx":"{self.float_text(self.index_price)}","ts":"{self.venue_ms()}"}}]'
        )

    def _open_contracts(self) -> str:
        contracts = self._amounts[self._open_interest]
        return f'"data":[{{{self._instrument()},"oi":"{contracts}","oiCcy":"{contracts}"}}]'

    def _funding_rate(self) -> str:
        second = self.clock.index
        due_ms = self._funding.next_second(second) * 1000
        return (
            f'"data":[{{{self._instrument()},"fundingRate":"{self._funding.rate(second):.8f}",'
            f'"fundingTime":"{due_ms}","nextFundingTime":"{due_ms + _MS_PER_FUNDING}",'
            f'"nextFundingRate":"{self._funding.predicted_rate(second):.8f}"}}]'
        )


def push(argument: str, body: str) -> str:
    """Return what a subscriber of an argument receives."""
    return f'{{"arg":{argument},{body}}}'
