"""BitMEX traffic: tables with partial, insert, update and delete actions."""

import hashlib
from typing import ClassVar

from tardis_machine.model.time import SECOND_US, us_text
from tardis_machine.sources.simulator.clock import UNITS_PER_MS
from tardis_machine.sources.simulator.feed import FeedOptions, MarketPlan, SimulatedFeed
from tardis_machine.sources.simulator.funding import Funding
from tardis_machine.sources.simulator.market import Change, Taken
from tardis_machine.sources.simulator.prices import (
    LevelTexts,
    PriceGrid,
    derived_grid,
    start_price,
)

_GRIDS = {"XBTUSD": PriceGrid(2, 50), "ETHUSD": PriceGrid(2, 5)}
_ID_BASES = {"XBTUSD": 8_800_000_000, "ETHUSD": 29_900_000_000}
_CONTRACTS_PER_LOT = 100
_QUOTES = ("USDT", "USD", "XBT", "EUR")
_SIDES = ("Sell", "Buy")

_PARTIALS = {
    "instrument": '"keys":["symbol"],"types":{"symbol":"symbol","state":"symbol"}',
    "trade": (
        '"keys":[],"types":{"timestamp":"timestamp","symbol":"symbol","side":"symbol",'
        '"size":"long","price":"float","tickDirection":"symbol","trdMatchID":"guid",'
        '"grossValue":"long","homeNotional":"float","foreignNotional":"float","trdType":"symbol"}'
    ),
    "orderBookL2": (
        '"keys":["symbol","id","side"],"types":{"symbol":"symbol","id":"long","side":"symbol",'
        '"size":"long","price":"float","timestamp":"timestamp"}'
    ),
    "quote": (
        '"keys":[],"types":{"timestamp":"timestamp","symbol":"symbol","bidSize":"long",'
        '"bidPrice":"float","askPrice":"float","askSize":"long"}'
    ),
    "liquidation": (
        '"keys":["orderID"],"types":{"orderID":"guid","symbol":"symbol","side":"symbol",'
        '"price":"float","leavesQty":"long"}'
    ),
}
"""Table -> how its partial describes the columns, in the order a recorder receives them."""

TABLES = tuple(_PARTIALS)
"""The tables that are simulated."""


def open_feed(symbol: str, options: FeedOptions) -> "BitmexFeed":
    """Start the market of a symbol."""
    return BitmexFeed(_plan(symbol), options)


def _plan(symbol: str) -> MarketPlan:
    quote = next((quote for quote in _QUOTES if symbol.endswith(quote)), "")
    base = symbol.removesuffix(quote) or symbol
    price = start_price(base, quote or "USD")
    return MarketPlan(
        symbol=symbol,
        base=base,
        start_price=price,
        grid=_GRIDS.get(symbol) or derived_grid(price),
        depth=100,
        changes_per_event=(1,) * 54 + (2,) * 7 + (3, 4, 6),
    )


class BitmexFeed(SimulatedFeed):
    """Write one BitMEX symbol: trade, orderBookL2, quote, instrument, liquidation."""

    exchange: ClassVar[str] = "bitmex"
    messages_per_step: ClassVar[float] = 1.75

    def __init__(self, market_plan: MarketPlan, options: FeedOptions) -> None:
        super().__init__(market_plan, options)
        self._prices = LevelTexts(self.grid, is_trimmed=True)
        self._id_base = _ID_BASES.get(self.symbol) or _derived_id_base(self.symbol)
        self._funding = Funding(options.seed, f"bitmex/{self.symbol}", first_hour=4)
        self._open_interest = 300_000_000 + self.rng.getrandbits(26)
        self._satoshi_units = 10 ** (8 + self.grid.decimals)
        self._tick_direction = "ZeroPlusTick"
        self._last_level = self.last_trade[0]
        self._last_trades = ""

    def price_text(self, level: int) -> str:
        """Write the price of a level."""
        return self._prices[level]

    def amount_text(self, lots: int) -> str:
        """Write an amount of lots, which are contracts here."""
        return str(lots * _CONTRACTS_PER_LOT)

    def connect(self) -> None:
        """Write one partial per table."""
        self._last_trades = self._trade_item(self._now(), *self.last_trade, self.draw_guid())
        for table, partial in [(table, self.partial(table)) for table in _PARTIALS]:
            self.emit(table, partial)

    def partial(self, table: str) -> str:
        """Return what a new subscription of a table starts with."""
        return (
            f'{{"table":"{table}","action":"partial",{_PARTIALS[table]},'
            f'"filter":{{"symbol":"{self.symbol}"}},"data":[{self._partial_items(table)}]}}'
        )

    def _partial_items(self, table: str) -> str:
        now = self._now()
        if table == "orderBookL2":
            levels = [(False, *entry) for entry in reversed(self.market.sorted_asks())]
            levels += [(True, *entry) for entry in self.market.sorted_bids()]
            return ",".join([self._full_level(now, *entry) for entry in levels])
        if table == "instrument":
            return self._instrument_item(now)
        if table == "quote":
            return self._quote_item(now, *self.market.best())
        return self._last_trades if table == "trade" else ""

    def write_trade(self, taken: Taken) -> None:
        """Write the trades in one message, then the book; liquidations frame theirs."""
        now, now_us = self._now(), self._now_us()
        order_id = ""
        if self.draw_liquidation():
            order_id = self.draw_guid()
            self._emit_liquidation(order_id, taken)
        items = []
        for level, lots in taken.fills:
            trade_id = self.draw_guid()
            self.report_trade(trade_id, level, lots, taken, now_us)
            items.append(self._trade_item(now, level, lots, taken.is_buy, trade_id))
        self._last_trades = ",".join(items)
        self.emit("trade", f'{{"table":"trade","action":"insert","data":[{self._last_trades}]}}')
        self.write_changes(taken.changes)
        self._open_interest += (self.rng.getrandbits(3) - 3) * _CONTRACTS_PER_LOT
        if order_id:
            self.emit(
                "liquidation",
                '{"table":"liquidation","action":"delete",'
                f'"data":[{{"orderID":"{order_id}","symbol":"{self.symbol}"}}]}}',
            )

    def _emit_liquidation(self, order_id: str, taken: Taken) -> None:
        contracts = sum(lots for _, lots in taken.fills) * _CONTRACTS_PER_LOT
        self.emit(
            "liquidation",
            '{"table":"liquidation","action":"insert",'
            f'"data":[{{"orderID":"{order_id}","symbol":"{self.symbol}",'
            f'"side":"{_SIDES[taken.is_buy]}","price":{self._prices[taken.fills[-1][0]]},'
            f'"leavesQty":{contracts}}}]}}',
        )

    def _trade_item(
        self,
        now: str,
        level: int,
        lots: int,
        is_buy: bool,  # noqa: FBT001
        trade_id: str,
    ) -> str:
        self._note_direction(level)
        contracts = lots * _CONTRACTS_PER_LOT
        satoshis = contracts * self._satoshi_units // self.grid.units(level)
        return (
            f'{{"timestamp":"{now}","symbol":"{self.symbol}","side":"{_SIDES[is_buy]}",'
            f'"size":{contracts},"price":{self._prices[level]},'
            f'"tickDirection":"{self._tick_direction}","trdMatchID":"{trade_id}",'
            f'"grossValue":{satoshis},"homeNotional":{satoshis / 100_000_000},'
            f'"foreignNotional":{contracts},"trdType":"Regular"}}'
        )

    def _note_direction(self, level: int) -> None:
        if level > self._last_level:
            self._tick_direction = "PlusTick"
        elif level < self._last_level:
            self._tick_direction = "MinusTick"
        elif not self._tick_direction.startswith("Zero"):
            self._tick_direction = f"Zero{self._tick_direction}"
        self._last_level = level

    def write_changes(self, changes: list[Change]) -> None:
        """Write changed levels, one message per action: deletes, updates, inserts."""
        now, now_us = self._now(), self._now_us()
        if len(changes) == 1:
            self._emit_book(_action(changes[0]), changes, now, now_us)
            return
        for action in ("delete", "update", "insert"):
            concerned = [change for change in changes if _action(change) == action]
            if concerned:
                self._emit_book(action, concerned, now, now_us)

    def _emit_book(self, action: str, changes: list[Change], now: str, now_us: int) -> None:
        self.book_sequence += 1
        items = ",".join([self._level(now, change) for change in changes])
        message = f'{{"table":"orderBookL2","action":"{action}","data":[{items}]}}'
        self.emit_book("orderBookL2", message, changes, now_us)

    def _level(self, now: str, change: Change) -> str:
        is_bid, level, lots, lots_before = change
        if not lots_before:
            return self._full_level(now, is_bid, level, lots)
        size = f'"size":{lots * _CONTRACTS_PER_LOT},' if lots else ""
        return (
            f'{{"symbol":"{self.symbol}","id":{self._id_base - self.grid.units(level)},'
            f'"side":"{_SIDES[is_bid]}",{size}"timestamp":"{now}"}}'
        )

    def _full_level(self, now: str, is_bid: bool, level: int, lots: int) -> str:  # noqa: FBT001
        return (
            f'{{"symbol":"{self.symbol}","id":{self._id_base - self.grid.units(level)},'
            f'"side":"{_SIDES[is_bid]}","size":{lots * _CONTRACTS_PER_LOT},'
            f'"price":{self._prices[level]},"timestamp":"{now}"}}'
        )

    def write_best(self, best: tuple[int, int, int, int]) -> None:
        """Write a quote."""
        item = self._quote_item(self._now(), *best)
        self.emit("quote", f'{{"table":"quote","action":"insert","data":[{item}]}}')

    def _quote_item(self, now: str, bid: int, bid_lots: int, ask: int, ask_lots: int) -> str:
        return (
            f'{{"timestamp":"{now}","symbol":"{self.symbol}",'
            f'"bidSize":{bid_lots * _CONTRACTS_PER_LOT},"bidPrice":{self._prices[bid]},'
            f'"askPrice":{self._prices[ask]},"askSize":{ask_lots * _CONTRACTS_PER_LOT}}}'
        )

    def write_ticker(self) -> None:
        """Write an instrument update; each second it carries other fields."""
        now = self._now()
        second = self.clock.index
        mark = self.float_text(self.mark_price)
        fields = f'"markPrice":{mark},"fairPrice":{mark}'
        if second % 5 == 0:
            fields += f',"indicativeSettlePrice":{self.float_text(self.index_price)}'
        if second % 10 == 0:
            fields += f',"openInterest":{self._open_interest}'
        if second % 60 == 0:
            fields += f",{self._funding_fields()}"
        fields += f',"lastPrice":{self._prices[self.last_trade[0]]}'
        self.emit(
            "instrument",
            '{"table":"instrument","action":"update",'
            f'"data":[{{"symbol":"{self.symbol}",{fields},"timestamp":"{now}"}}]}}',
        )

    def _funding_fields(self) -> str:
        second = self.clock.index
        due = us_text(self._funding.next_second(second) * SECOND_US)
        return (
            f'"fundingTimestamp":"{due[:23]}Z","fundingRate":{self._funding.rate(second)},'
            f'"indicativeFundingRate":{self._funding.predicted_rate(second)}'
        )

    def _instrument_item(self, now: str) -> str:
        mark = self.float_text(self.mark_price)
        return (
            f'{{"symbol":"{self.symbol}","rootSymbol":"{self.symbol[:3]}","state":"Open",'
            f'"typ":"FFWCSX","tickSize":{self.grid.tick_units / 10**self.grid.decimals},'
            f'"lotSize":{_CONTRACTS_PER_LOT},{self._funding_fields()},'
            f'"lastPrice":{self._prices[self.last_trade[0]]},'
            f'"markPrice":{mark},"fairPrice":{mark},'
            f'"indicativeSettlePrice":{self.float_text(self.index_price)},'
            f'"openInterest":{self._open_interest},"timestamp":"{now}"}}'
        )

    def _now_us(self) -> int:
        return 0 if self.listener is None else self.venue_us()

    def _now(self) -> str:
        return self.venue_text(UNITS_PER_MS, 3)


def _action(change: Change) -> str:
    _, _, lots, lots_before = change
    if not lots:
        return "delete"
    return "update" if lots_before else "insert"


def _derived_id_base(symbol: str) -> int:
    # Level ids of different symbols must never meet: each symbol owns a block of 10^8.
    digest = int.from_bytes(hashlib.sha256(symbol.encode()).digest()[:4], "big")
    return (1_000 + digest % 89_000) * 10**8
