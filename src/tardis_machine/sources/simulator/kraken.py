"""Kraken traffic of WebSocket v2: channels with type and data, books with a checksum."""

import zlib
from collections.abc import Mapping
from typing import ClassVar

from tardis_machine.sources.simulator.clock import UNITS_PER_US
from tardis_machine.sources.simulator.feed import FeedOptions, MarketPlan, SimulatedFeed
from tardis_machine.sources.simulator.market import Change, Taken
from tardis_machine.sources.simulator.prices import (
    MAX_TEXTS,
    FixedTexts,
    LevelTexts,
    PriceGrid,
    derived_grid,
    start_price,
)

TICKER_ON_TRADES = "ticker on trades"
"""The channel of tickers for those who do not ask for every change of the best prices."""

_GRIDS = {"BTC/USD": PriceGrid(1, 1, 5), "ETH/USD": PriceGrid(2, 1, 3)}
_AMOUNT_DECIMALS = 8
_DOLLARS_PER_LOT = 50
_CHECKED_LEVELS = 10
_SIDES = ("sell", "buy")


def open_feed(symbol: str, options: FeedOptions) -> "KrakenFeed":
    """Start the market of a symbol."""
    return KrakenFeed(_plan(symbol), options)


def _plan(symbol: str) -> MarketPlan:
    base, _, quote = symbol.partition("/")
    price = start_price(base, quote or "USD")
    return MarketPlan(
        symbol=symbol,
        base=base,
        start_price=price,
        grid=_GRIDS.get(symbol) or derived_grid(price),
        depth=200,
        changes_per_event=(1,) * 36 + (2,) * 14 + (3,) * 8 + (5,) * 4 + (8,) * 2,
    )


class Digits(dict[int, str]):
    """Remember number texts as checksums take them: no point, no leading zeros."""

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._texts = texts

    def __missing__(self, key: int) -> str:
        if len(self) >= MAX_TEXTS:
            self.clear()
        digits = self[key] = self._texts[key].replace(".", "").lstrip("0")
        return digits


class KrakenFeed(SimulatedFeed):
    """Write one pair: trade, book, ticker."""

    exchange: ClassVar[str] = "kraken"
    messages_per_step: ClassVar[float] = 1.6
    time_unit_us: ClassVar[int] = 1

    def __init__(self, market_plan: MarketPlan, options: FeedOptions) -> None:
        super().__init__(market_plan, options)
        self._prices = LevelTexts(self.grid, is_trimmed=False)
        self._amounts = FixedTexts(_AMOUNT_DECIMALS)
        self._price_digits = Digits(self._prices)
        self._amount_digits = Digits(self._amounts)
        self._lot_units = int(_DOLLARS_PER_LOT / self.index_start * 10**_AMOUNT_DECIMALS) | 1
        self._trade_id = 70_000_000 + self.rng.getrandbits(20)
        self._first_trade_id = self._trade_id
        self._last_trades = ""

    def price_text(self, level: int) -> str:
        """Write the price of a level."""
        return self._prices[level]

    def amount_text(self, lots: int) -> str:
        """Write an amount of lots."""
        return self._amounts[lots * self._lot_units]

    def connect(self) -> None:
        """Write the book and the ticker."""
        self.emit("book", self.book_snapshot())
        self.emit("ticker", self.ticker("snapshot"))

    def book_snapshot(self) -> str:
        """Return the whole book."""
        bids, asks = self.market.sorted_bids(), self.market.sorted_asks()
        return self._book("snapshot", self._levels(bids), self._levels(asks))

    def _book(self, kind: str, bids: str, asks: str) -> str:
        return (
            f'{{"channel":"book","type":"{kind}","data":[{{"symbol":"{self.symbol}",'
            f'"bids":[{bids}],"asks":[{asks}],"checksum":{self.checksum()},'
            f'"timestamp":"{self._now()}"}}]}}'
        )

    def _levels(self, levels: list[tuple[int, int]]) -> str:
        return ",".join(
            [
                f'{{"price":{self._prices[level]},"qty":{self.amount_text(lots)}}}'
                for level, lots in levels
            ]
        )

    def checksum(self) -> int:
        """Return the CRC32 of the best ten levels, asks first, digits without leading zeros."""
        asks = self.market.top_asks(_CHECKED_LEVELS)
        prices, amounts, lot_units = self._price_digits, self._amount_digits, self._lot_units
        digits = [
            prices[level] + amounts[lots * lot_units]
            for level, lots in asks + self.market.top_bids(_CHECKED_LEVELS)
        ]
        return zlib.crc32("".join(digits).encode())

    def write_changes(self, changes: list[Change]) -> None:
        """Write one book update."""
        self.book_sequence += 1
        bids = self._levels([(level, lots) for is_bid, level, lots, _ in changes if is_bid])
        asks = self._levels([(level, lots) for is_bid, level, lots, _ in changes if not is_bid])
        self.emit_book("book", self._book("update", bids, asks), changes)

    def write_trade(self, taken: Taken) -> None:
        """Write all fills in one message, then the book."""
        items = []
        for level, lots in taken.fills:
            self._trade_id += 1
            self.report_trade(self._trade_id, level, lots, taken)
            items.append(
                f'{{"symbol":"{self.symbol}","side":"{_SIDES[taken.is_buy]}",'
                f'"price":{self._prices[level]},"qty":{self.amount_text(lots)},'
                f'"ord_type":"market","trade_id":{self._trade_id},"timestamp":"{self._now()}"}}'
            )
        self._last_trades = ",".join(items)
        self.emit("trade", self.trades("update"))
        if taken.changes:
            self.write_changes(taken.changes)
        if self.listener is not None:
            # A recorder asks for tickers of changed prices only.
            self.emit(TICKER_ON_TRADES, self.ticker("update"))

    def trades(self, kind: str) -> str:
        """Return the last trades."""
        return f'{{"channel":"trade","type":"{kind}","data":[{self._last_trades}]}}'

    def write_best(self, best: tuple[int, int, int, int]) -> None:
        """Write a ticker."""
        self.emit("ticker", self.ticker("update"))

    def write_ticker(self) -> None:
        """Write nothing: tickers follow changes of the best prices, or trades."""

    def ticker(self, kind: str) -> str:
        """Return the best prices, the last one and day statistics."""
        bid, bid_lots, ask, ask_lots = self.market.best()
        last, first = self.grid.price(self.last_trade[0]), self.grid.price(self.day_open)
        volume = (self._trade_id - self._first_trade_id) * 0.05 + 1_000
        return (
            f'{{"channel":"ticker","type":"{kind}","data":[{{"symbol":"{self.symbol}",'
            f'"bid":{self._prices[bid]},"bid_qty":{self.amount_text(bid_lots)},'
            f'"ask":{self._prices[ask]},"ask_qty":{self.amount_text(ask_lots)},'
            f'"last":{self._prices[self.last_trade[0]]},"volume":{volume:.8f},'
            f'"vwap":{self.float_text((last + first) / 2)},'
            f'"low":{self._prices[self.day_low]},"high":{self._prices[self.day_high]},'
            f'"change":{self.float_text(last - first)},'
            f'"change_pct":{(last / first - 1) * 100:.2f},"timestamp":"{self._now()}"}}]}}'
        )

    def _now(self) -> str:
        return self.venue_text(UNITS_PER_US, 6)
