"""Book, trades and ticker of any Deribit instrument."""

from typing import ClassVar

from tardis_machine.sources.simulator.feed import FeedOptions, MarketPlan, SimulatedFeed
from tardis_machine.sources.simulator.market import Change, Taken
from tardis_machine.sources.simulator.prices import FixedTexts, LevelTexts

_DOLLARS_PER_LOT = 10
_DIRECTIONS = ("sell", "buy")
_PLUS_TICK, _ZERO_PLUS_TICK, _MINUS_TICK, _ZERO_MINUS_TICK = range(4)


def notification(channel: str, data: str) -> str:
    """Return what a subscriber of a channel receives."""
    return (
        '{"jsonrpc":"2.0","method":"subscription","params":{"channel":'
        f'"{channel}","data":{data}}}}}'
    )


class DeribitFeed(SimulatedFeed):
    """Write one instrument; subclasses say what its kind adds."""

    exchange: ClassVar[str] = "deribit"
    messages_per_step: ClassVar[float] = 1.55
    amount_decimals: ClassVar[int] = 0
    amount_units_per_lot: ClassVar[int] = _DOLLARS_PER_LOT

    def __init__(self, market_plan: MarketPlan, options: FeedOptions) -> None:
        super().__init__(market_plan, options)
        self.prices = LevelTexts(self.grid, is_trimmed=True)
        self._amounts = FixedTexts(self.amount_decimals)
        self.book_sequence = 68_000_000_000 + self.rng.getrandbits(28)
        self._trade_seq = 190_000_000 + self.rng.getrandbits(20)
        self._trade_id = 284_000_000 + self.rng.getrandbits(20)
        self._tick_direction = _ZERO_PLUS_TICK
        self._last_level = self.last_trade[0]
        self.open_interest_lots = 1_000 + self.rng.getrandbits(16)
        self.mark_text = self.index_text = self.slow_fields = ""

    def wrap(self, channel: str, body: str) -> str:
        """Return the notification that a recorder receives."""
        return notification(f"{channel}.{self.symbol}.raw", body)

    def price_text(self, level: int) -> str:
        """Write the price of a level."""
        return self.prices[level]

    def connect(self) -> None:
        """Write the whole book and the ticker."""
        self.emit("book", self.book_snapshot())
        self.write_ticker()

    def book_snapshot(self) -> str:
        """Return the whole book, as a new subscription starts with."""
        bids = ",".join(self._level("new", *entry) for entry in self.market.sorted_bids())
        asks = ",".join(self._level("new", *entry) for entry in self.market.sorted_asks())
        return (
            f'{{"type":"snapshot","timestamp":{self.venue_ms()},'
            f'"instrument_name":"{self.symbol}","change_id":{self.book_sequence},'
            f'"bids":[{bids}],"asks":[{asks}]}}'
        )

    def _level(self, action: str, level: int, lots: int) -> str:
        return f'["{action}",{self.prices[level]},{self.amount_text(lots)}]'

    def write_changes(self, changes: list[Change]) -> None:
        """Write one book change that names the one before it."""
        before = self.book_sequence
        self.book_sequence = before + 1 + self.rng.getrandbits(5)
        self.emit_book(
            "book",
            f'{{"type":"change","timestamp":{self.venue_ms()},"prev_change_id":{before},'
            f'"instrument_name":"{self.symbol}","change_id":{self.book_sequence},'
            f'"bids":[{self._changed(changes, is_bid=True)}],'
            f'"asks":[{self._changed(changes, is_bid=False)}]}}',
            changes,
        )

    def _changed(self, changes: list[Change], *, is_bid: bool) -> str:
        return ",".join(
            [
                self._level(_action(lots, lots_before), level, lots)
                for is_bid_level, level, lots, lots_before in changes
                if is_bid_level is is_bid
            ]
        )

    def write_trade(self, taken: Taken) -> None:
        """Write the fills in one message, then the book."""
        liquidation = self.liquidation_field()
        items = ",".join(
            [self._trade_item(level, lots, taken, liquidation) for level, lots in taken.fills]
        )
        self.emit("trades", f"[{items}]")
        self.open_interest_lots += self.rng.getrandbits(3) - 3
        if taken.changes:
            self.write_changes(taken.changes)

    def liquidation_field(self) -> str:
        """Return the field that marks a liquidation, for the trade at hand."""
        if not self.draw_liquidation():
            return ""
        return '"liquidation":"M",' if self.rng.getrandbits(2) == 0 else '"liquidation":"T",'

    def _trade_item(self, level: int, lots: int, taken: Taken, liquidation: str) -> str:
        self._trade_seq += 1
        self._trade_id += 1
        self.report_trade(self._trade_id, level, lots, taken)
        self._note_direction(level)
        return (
            f'{{"trade_seq":{self._trade_seq},"trade_id":"{self._trade_id}",'
            f'"timestamp":{self.venue_ms()},"tick_direction":{self._tick_direction},'
            f'"price":{self.prices[level]},{self.trade_fields()}{liquidation}'
            f'"instrument_name":"{self.symbol}","index_price":{self.index_text},'
            f'"direction":"{_DIRECTIONS[taken.is_buy]}","amount":{self.amount_text(lots)}}}'
        )

    def trade_fields(self) -> str:
        """Return the fields of a trade that depend on the kind of instrument."""
        return f'"mark_price":{self.mark_text},'

    def _note_direction(self, level: int) -> None:
        if level != self._last_level:
            self._tick_direction = _PLUS_TICK if level > self._last_level else _MINUS_TICK
        elif self._tick_direction in (_PLUS_TICK, _MINUS_TICK):
            self._tick_direction += 1
        self._last_level = level

    def write_best(self, best: tuple[int, int, int, int]) -> None:
        """Write a ticker; it carries the best bid and ask."""
        self.write_ticker()

    def reprice(self) -> float:
        """Return the mark price, and keep the ticker fields that change once per second."""
        mark = super().reprice()
        self.slow_fields = self.write_slow_fields(mark)
        return mark

    def write_slow_fields(self, mark: float) -> str:
        """Return the ticker fields of this second."""
        self.mark_text = self.float_text(mark)
        self.index_text = f"{self.index_price:.2f}"
        return (
            f'"stats":{{"volume":{self.open_interest_lots / 10},'
            f'"low":{self.prices[self.day_low]},"high":{self.prices[self.day_high]}}},'
            f'"state":"open","settlement_price":{self.prices[self.day_open]},'
            f'"open_interest":{self.amount_text(self.open_interest_lots)},'
            f'"min_price":{self.float_text(mark * 0.985)},'
            f'"max_price":{self.float_text(mark * 1.015)},"mark_price":{self.mark_text},'
            f'"index_price":{self.index_text},"estimated_delivery_price":{self.index_text}'
        )

    def write_ticker(self) -> None:
        """Write a ticker."""
        self.emit("ticker", self.ticker())

    def ticker(self) -> str:
        """Return what changed this second, the last trade, the best bid and ask."""
        bid, bid_lots, ask, ask_lots = self.market.best()
        return (
            f'{{"timestamp":{self.venue_ms()},{self.slow_fields},{self.quoted_fields()}'
            f'"last_price":{self.prices[self.last_trade[0]]},"instrument_name":"{self.symbol}",'
            f'"best_bid_price":{self.prices[bid]},"best_bid_amount":{self.amount_text(bid_lots)},'
            f'"best_ask_price":{self.prices[ask]},"best_ask_amount":{self.amount_text(ask_lots)}}}'
        )

    def quoted_fields(self) -> str:
        """Return the ticker fields that follow from the best bid and ask."""
        return ""

    def amount_text(self, lots: int) -> str:
        """Write an amount of lots."""
        return self._amounts[lots * self.amount_units_per_lot]


def _action(lots: int, lots_before: int) -> str:
    if not lots:
        return "delete"
    return "change" if lots_before else "new"
