"""Coinbase Exchange traffic: one message type per event, times in microseconds."""

from typing import ClassVar

from tardis_machine.sources.simulator.clock import UNITS_PER_US
from tardis_machine.sources.simulator.feed import FeedOptions, MarketPlan, SimulatedFeed
from tardis_machine.sources.simulator.market import Change, Taken
from tardis_machine.sources.simulator.prices import (
    FixedTexts,
    LevelTexts,
    PriceGrid,
    derived_grid,
    start_price,
)

_GRIDS = {"BTC-USD": PriceGrid(2, 1, 50), "ETH-USD": PriceGrid(2, 1, 3)}
_AMOUNT_DECIMALS = 8
_DOLLARS_PER_LOT = 60
_MAKER_SIDES = ("buy", "sell")
_TAKER_SIDES = ("sell", "buy")


def open_feed(symbol: str, options: FeedOptions) -> "CoinbaseFeed":
    """Start the market of a symbol."""
    return CoinbaseFeed(_plan(symbol), options)


def _plan(symbol: str) -> MarketPlan:
    base, _, quote = symbol.partition("-")
    price = start_price(base, quote or "USD")
    return MarketPlan(
        symbol=symbol,
        base=base,
        start_price=price,
        grid=_GRIDS.get(symbol) or derived_grid(price),
        depth=200,
        changes_per_event=(1,) * 40 + (2,) * 12 + (3,) * 6 + (5,) * 4 + (9,) * 2,
    )


class CoinbaseFeed(SimulatedFeed):
    """Write one product: snapshot, l2update, match, last_match, ticker, subscriptions."""

    exchange: ClassVar[str] = "coinbase"
    messages_per_step: ClassVar[float] = 1.45
    time_unit_us: ClassVar[int] = 1

    def __init__(self, market_plan: MarketPlan, options: FeedOptions) -> None:
        super().__init__(market_plan, options)
        self._prices = LevelTexts(self.grid, is_trimmed=False)
        self._amounts = FixedTexts(_AMOUNT_DECIMALS)
        # An odd number of units per lot fills all eight decimals, as orders of people do.
        self._lot_units = int(_DOLLARS_PER_LOT / self.index_start * 10**_AMOUNT_DECIMALS) | 1
        self._sequence = 70_000_000_000 + self.rng.getrandbits(32)
        self._trade_id = 600_000_000 + self.rng.getrandbits(24)
        self._first_trade_id = self._trade_id
        self._last_match = ""

    def price_text(self, level: int) -> str:
        """Write the price of a level."""
        return self._prices[level]

    def amount_text(self, lots: int) -> str:
        """Write an amount of lots."""
        return self._amounts[lots * self._lot_units]

    def connect(self) -> None:
        """Write the subscriptions, the last trade, the ticker and the book."""
        channels = ",".join(
            f'{{"name":"{name}","product_ids":["{self.symbol}"],"account_ids":null}}'
            for name in ("level2", "matches", "ticker")
        )
        self.emit("subscriptions", f'{{"type":"subscriptions","channels":[{channels}]}}')
        self._last_match = self._match_fields(*self.last_trade, self.draw_guid())
        self.emit("last_match", self.last_match())
        self.emit("ticker", self.ticker())
        self.emit("snapshot", self.snapshot())

    def last_match(self) -> str:
        """Return the last trade, as a new subscription starts with; empty before the first."""
        return f'{{"type":"last_match",{self._last_match}' if self._last_match else ""

    def snapshot(self) -> str:
        """Return the whole book."""
        return (
            f'{{"type":"snapshot","product_id":"{self.symbol}",'
            f'"asks":[{self._levels(self.market.sorted_asks())}],'
            f'"bids":[{self._levels(self.market.sorted_bids())}],"time":"{self._now()}"}}'
        )

    def heartbeat(self) -> str:
        """Return what the heartbeat channel sends every second."""
        return (
            f'{{"type":"heartbeat","last_trade_id":{self._trade_id},'
            f'"product_id":"{self.symbol}","sequence":{self._sequence},"time":"{self._now()}"}}'
        )

    def _levels(self, levels: list[tuple[int, int]]) -> str:
        return ",".join(
            [f'["{self._prices[level]}","{self.amount_text(lots)}"]' for level, lots in levels]
        )

    def write_trade(self, taken: Taken) -> None:
        """Write one match per fill, then the book, then the ticker."""
        taker_order_id = self.draw_guid()
        for level, lots in taken.fills:
            self._trade_id += 1
            self.report_trade(self._trade_id, level, lots, taken)
            self._last_match = self._match_fields(level, lots, taken.is_buy, taker_order_id)
            self.emit("match", f'{{"type":"match",{self._last_match}')
        if taken.changes:
            self.write_changes(taken.changes)
        self.emit("ticker", self.ticker())

    def _match_fields(self, level: int, lots: int, is_buy: bool, taker_order_id: str) -> str:  # noqa: FBT001
        """Return a trade from its id on; what is before names the kind of message."""
        self._sequence += 1 + self.rng.getrandbits(5)
        return (
            f'"trade_id":{self._trade_id},"maker_order_id":"{self.draw_guid()}",'
            f'"taker_order_id":"{taker_order_id}","side":"{_MAKER_SIDES[is_buy]}",'
            f'"size":"{self.amount_text(lots)}","price":"{self._prices[level]}",'
            f'"product_id":"{self.symbol}","sequence":{self._sequence},"time":"{self._now()}"}}'
        )

    def write_changes(self, changes: list[Change]) -> None:
        """Write one l2update."""
        prices, amount_text = self._prices, self.amount_text
        items = ",".join(
            [
                f'["{"buy" if is_bid else "sell"}","{prices[level]}","{amount_text(lots)}"]'
                for is_bid, level, lots, _ in changes
            ]
        )
        self.book_sequence += 1
        self.emit_book(
            "l2update",
            f'{{"type":"l2update","product_id":"{self.symbol}","changes":[{items}],'
            f'"time":"{self._now()}"}}',
            changes,
        )

    def write_best(self, best: tuple[int, int, int, int]) -> None:
        """Write nothing: this venue sends its ticker on trades only."""

    def write_ticker(self) -> None:
        """Write nothing: this venue has no clock-driven messages."""

    def ticker(self) -> str:
        """Return the last trade with the best bid and ask."""
        bid, bid_lots, ask, ask_lots = self.market.best()
        level, lots, is_buy = self.last_trade
        volume = (self._trade_id - self._first_trade_id) * 0.05 + 8_000
        return (
            f'{{"type":"ticker","sequence":{self._sequence},"product_id":"{self.symbol}",'
            f'"price":"{self._prices[level]}","open_24h":"{self._prices[self.day_open]}",'
            f'"volume_24h":"{volume:.8f}","low_24h":"{self._prices[self.day_low]}",'
            f'"high_24h":"{self._prices[self.day_high]}","volume_30d":"{volume * 30:.8f}",'
            f'"best_bid":"{self._prices[bid]}","best_bid_size":"{self.amount_text(bid_lots)}",'
            f'"best_ask":"{self._prices[ask]}","best_ask_size":"{self.amount_text(ask_lots)}",'
            f'"side":"{_TAKER_SIDES[is_buy]}","time":"{self._now()}",'
            f'"trade_id":{self._trade_id},"last_size":"{self.amount_text(lots)}"}}'
        )

    def _now(self) -> str:
        return self.venue_text(UNITS_PER_US, 6)
