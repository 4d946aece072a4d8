"""Protocol v5: `{topic, type, ts, data}`, the same for all markets."""

from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from tardis_machine.exchanges.chains import NumberedBookMapper
from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.numbers import LooseNumber
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.model.numbers import optional_number
from tardis_machine.model.records import (
    BookTicker,
    Liquidation,
    Side,
    SnapshotLevel,
    Trade,
)
from tardis_machine.model.time import ms_text

SIDES: dict[str, Side] = {"Buy": "buy", "Sell": "sell"}

NO_LEVEL = SnapshotLevel()

Item = TypeVar("Item")


class Push(Struct, Generic[Item], gc=False):
    """A message whose items have times of their own."""

    data: list[Item]


class TimedPush(Struct, Generic[Item], gc=False):
    """A message about one symbol."""

    ts: float
    data: Item
    type: str | None = None


class TradeItem(Struct, gc=False):
    """One trade, with the taker's side."""

    T: float
    s: str
    S: str
    v: float
    p: float
    i: str


class BookData(Struct, gc=False):
    """Changed levels of a book, or all of them; `u` grows by one with each message."""

    s: str
    b: list[Level]
    a: list[Level]
    u: int | None = None


class TickerData(Struct, gc=False, rename="camel"):
    """State of one contract; updates only have what changed."""

    symbol: str
    last_price: LooseNumber = None
    mark_price: LooseNumber = None
    index_price: LooseNumber = None
    open_interest: LooseNumber = None
    next_funding_time: LooseNumber = None
    funding_rate: LooseNumber = None


class LiquidationData(Struct, gc=False):
    """The one liquidation of a message; `side` is that of the position."""

    symbol: str
    side: str
    size: float
    price: float


class LiquidationItem(Struct, gc=False):
    """One liquidation of several; `S` is the side of the position."""

    T: float
    s: str
    S: str
    v: float
    p: float


class TradeMapper(Mapper):
    """`publicTrade`; those of options come together for all contracts of a currency."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (Push[TradeItem], self.map) if tag.startswith("publicTrade.") else None

    def map(self, message: Push[TradeItem], local: str, emit: Emit) -> None:
        """Emit one trade per item."""
        for item in message.data:
            emit(
                Trade(
                    symbol=item.s,
                    exchange=self.exchange,
                    id=item.i,
                    price=item.p,
                    amount=item.v,
                    side=SIDES.get(item.S, "unknown"),
                    timestamp=ms_text(item.T),
                    local_timestamp=local,
                )
            )


class BookMapper(NumberedBookMapper):
    """`orderbook.50`."""

    topics = "orderbook.50."
    books: ClassVar[TextLevels] = pair_levels(TimedPush[BookData], "data", bids="b", asks="a")

    def handler(self, tag: str) -> Handler | None:
        """Handle books of one depth."""
        return (self.books, self.map) if tag.startswith(self.topics) else None

    def map(self, message: TimedPush[BookData], local: str, emit: Emit) -> None:
        """Emit the book, or what changed of it."""
        data = message.data
        is_snapshot = message.type == "snapshot"
        if self.checks_sequence and not self.counts_on(data.s, data.u, is_snapshot=is_snapshot):
            return
        emit(
            book_change(
                data.s,
                self.exchange,
                data.b,
                data.a,
                ms_text(message.ts),
                local,
                is_snapshot=is_snapshot,
            )
        )


class BookTickerMapper(Mapper):
    """`orderbook.1`; an update only has the side that changed."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._best: dict[str, tuple[Level | SnapshotLevel, Level | SnapshotLevel]] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (TimedPush[BookData], self.map) if tag.startswith("orderbook.1.") else None

    def map(self, message: TimedPush[BookData], local: str, emit: Emit) -> None:
        """Emit the best bid and ask, once there was a snapshot."""
        data = message.data
        known = (NO_LEVEL, NO_LEVEL) if message.type == "snapshot" else self._best.get(data.s)
        if known is None:
            return
        bid, ask = best_level(data.b) or known[0], best_level(data.a) or known[1]
        self._best[data.s] = bid, ask
        emit(
            BookTicker(
                symbol=data.s,
                exchange=self.exchange,
                ask_amount=ask.amount,
                ask_price=ask.price,
                bid_price=bid.price,
                bid_amount=bid.amount,
                timestamp=ms_text(message.ts),
                local_timestamp=local,
            )
        )


class DerivativeTickerMapper(TickerMapper):
    """`tickers`."""

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (TimedPush[TickerData], self.map) if tag.startswith("tickers.") else None

    def map(self, message: TimedPush[TickerData], local: str, emit: Emit) -> None:
        """Emit the ticker if a value changed; dated futures send empty funding."""
        data = message.data
        funding_time = optional_number(data.next_funding_time)
        self._tickers.change(
            data.symbol,
            ms_text(message.ts),
            local,
            emit,
            last_price=optional_number(data.last_price),
            open_interest=optional_number(data.open_interest),
            funding_rate=optional_number(data.funding_rate),
            funding_timestamp=None if funding_time is None else ms_text(funding_time),
            index_price=optional_number(data.index_price),
            mark_price=optional_number(data.mark_price),
        )


class LiquidationMapper(Mapper):
    """`liquidation`, one order per message."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle liquidations."""
        is_liquidation = tag.startswith("liquidation.")
        return (TimedPush[LiquidationData], self.map) if is_liquidation else None

    def map(self, message: TimedPush[LiquidationData], local: str, emit: Emit) -> None:
        """Emit the liquidation."""
        data = message.data
        emit(
            Liquidation(
                symbol=data.symbol,
                exchange=self.exchange,
                price=data.price,
                amount=data.size,
                side=order_side(data.side),
                timestamp=ms_text(message.ts),
                local_timestamp=local,
            )
        )


class AllLiquidationMapper(Mapper):
    """`allLiquidation`, all orders."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle liquidations."""
        return (Push[LiquidationItem], self.map) if tag.startswith("allLiquidation.") else None

    def map(self, message: Push[LiquidationItem], local: str, emit: Emit) -> None:
        """Emit one liquidation per item."""
        for item in message.data:
            emit(
                Liquidation(
                    symbol=item.s,
                    exchange=self.exchange,
                    price=item.p,
                    amount=item.v,
                    side=order_side(item.S),
                    timestamp=ms_text(item.T),
                    local_timestamp=local,
                )
            )


def best_level(levels: list[Level]) -> Level | None:
    """Return the first level that is not a removed one."""
    for level in levels:
        if level.amount != 0:
            return level
    return None


def order_side(position: str) -> Side:
    """Return the side of the order that closed a position: a long one is sold."""
    return "sell" if position == "Buy" else "buy"
