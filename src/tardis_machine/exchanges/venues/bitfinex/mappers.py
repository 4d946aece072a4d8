"""Bitfinex arrays, and the mappers that read them.

None is stateless: what a message is about may have been said by an earlier one.
"""

from functools import partial
from operator import attrgetter
from typing import Any

from msgspec import UNSET, Struct

from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.exchanges.venues.bitfinex.channels import LIQUIDATIONS, symbol_of
from tardis_machine.model.records import (
    BookChange,
    BookLevel,
    BookTicker,
    Liquidation,
    OptionalNumber,
    Trade,
)
from tardis_machine.model.time import ms_text

TRADING_TICKER_ENTRIES = 11
"""Tickers with more entries are those of funding."""


class TradeItem(Struct, array_like=True, gc=False):
    """One trade; a negative amount was sold."""

    id: int
    time_ms: float
    amount: float
    price: float


class TradeMessage(Struct, array_like=True, gc=False):
    """A `trades` array: `te` with a new trade, `tu` with the same again, or old trades."""

    number: int
    kind: str | list[Any]
    item: TradeItem | float | None = None


class Level(Struct, array_like=True, gc=False):
    """Price, number of orders and amount; asks have a negative one."""

    price: float
    count: float
    amount: float


entries_of = attrgetter("price", "count", "amount")


class BookMessage(Struct, array_like=True, gc=False):
    """A `book` array: all levels, or the three entries of one."""

    number: int
    levels: list[float | Level]
    sequence: float
    time_ms: float


class TickerMessage(Struct, array_like=True, gc=False):
    """A `ticker` array."""

    number: int
    entries: list[float | None]
    sequence: float
    time_ms: float


class Status(Struct, array_like=True, gc=False):
    """State of a derivative; entries that are not read have names that say where they stand."""

    time: Any = None
    entry1: Any = None
    last_price: float | None = None
    index_price: float | None = None
    entry4: Any = None
    entry5: Any = None
    entry6: Any = None
    next_funding_ms: float | None = None
    next_funding_rate: float | None = None
    entry9: Any = None
    entry10: Any = None
    funding_rate: float | None = None
    entry12: Any = None
    entry13: Any = None
    mark_price: float | None = None
    entry15: Any = None
    entry16: Any = None
    open_interest: float | None = None


class StatusMessage(Struct, array_like=True, gc=False):
    """A `status` array."""

    number: int
    status: Status
    sequence: float
    time_ms: float


class LiquidationItem(Struct, array_like=True, gc=False):
    """One step of a liquidation; entries that are not read have names that say where they stand."""

    kind: Any
    id: int
    time_ms: float
    entry3: Any
    symbol: str
    amount: float
    price: float
    entry7: Any
    is_match: int


class LiquidationMessage(Struct, array_like=True, gc=False):
    """A `liquidations` array."""

    number: int
    items: list[LiquidationItem]


class TradeMapper(Mapper):
    """`trades`, the first message of each."""

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        symbol = symbol_of(tag, "trades")
        return None if symbol is None else (TradeMessage, partial(self.map, symbol))

    def map(self, symbol: str, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit a new trade; what came before the subscription is not repeated."""
        if message.kind != "te":
            return
        item = message.item
        if not isinstance(item, TradeItem):
            raise TypeError(f"a trade of {symbol} has no entries.")
        emit(
            Trade(
                symbol=symbol,
                exchange=self.exchange,
                id=str(item.id),
                price=item.price,
                amount=abs(item.amount),
                side="sell" if item.amount < 0 else "buy",
                timestamp=ms_text(item.time_ms),
                local_timestamp=local,
            )
        )


class BookMapper(Mapper):
    """`book`."""

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        symbol = symbol_of(tag, "book")
        return None if symbol is None else (BookMessage, partial(self.map, symbol))

    def map(self, symbol: str, message: BookMessage, local: str, emit: Emit) -> None:
        """Emit all levels, or the one that changed."""
        levels: list[Any] = message.levels
        is_snapshot = not (levels and isinstance(levels[0], float))
        bids: list[BookLevel] = []
        asks: list[BookLevel] = []
        for price, count, amount in map(entries_of, levels) if is_snapshot else (levels,):
            side = bids if amount > 0 else asks
            # A level without orders is removed; its amount only tells the side.
            side.append(BookLevel(price, abs(amount) if count > 0 else 0.0))
        emit(
            BookChange(
                symbol=symbol,
                exchange=self.exchange,
                is_snapshot=is_snapshot,
                bids=bids,
                asks=asks,
                timestamp=ms_text(message.time_ms),
                local_timestamp=local,
            )
        )


class BookTickerMapper(Mapper):
    """`ticker` of trading pairs."""

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        symbol = symbol_of(tag, "ticker")
        return None if symbol is None else (TickerMessage, partial(self.map, symbol))

    def map(self, symbol: str, message: TickerMessage, local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        if len(message.entries) > TRADING_TICKER_ENTRIES:
            return
        bid, bid_amount, ask, ask_amount, *_ = map(present, message.entries)
        emit(
            BookTicker(
                symbol=symbol,
                exchange=self.exchange,
                ask_amount=ask_amount,
                ask_price=ask,
                bid_price=bid,
                bid_amount=bid_amount,
                timestamp=ms_text(message.time_ms),
                local_timestamp=local,
            )
        )


def present(value: float | None) -> OptionalNumber:
    """Return a number, or that there is none."""
    return UNSET if value is None else value


class DerivativeTickerMapper(TickerMapper):
    """`status` of derivatives."""

    def handler(self, tag: str) -> Handler | None:
        """Handle the state of derivatives."""
        symbol = symbol_of(tag, "status")
        return None if symbol is None else (StatusMessage, partial(self.map, symbol))

    def map(self, symbol: str, message: StatusMessage, local: str, emit: Emit) -> None:
        """Emit a ticker if a value changed."""
        status = message.status
        time_ms = status.next_funding_ms
        self._tickers.change(
            symbol,
            ms_text(message.time_ms),
            local,
            emit,
            last_price=status.last_price,
            index_price=status.index_price,
            funding_timestamp=None if time_ms is None else ms_text(time_ms),
            predicted_funding_rate=status.next_funding_rate,
            funding_rate=status.funding_rate,
            mark_price=status.mark_price,
            open_interest=status.open_interest,
        )


class LiquidationMapper(Mapper):
    """`liquidations` of all derivatives."""

    def handler(self, tag: str) -> Handler | None:
        """Handle liquidations."""
        is_known = symbol_of(tag, LIQUIDATIONS) is not None
        return (LiquidationMessage, self.map) if is_known else None

    def map(self, message: LiquidationMessage, local: str, emit: Emit) -> None:
        """Emit what triggered each liquidation; the matches that follow belong to it."""
        for item in message.items:
            if item.is_match == 0:
                emit(
                    Liquidation(
                        symbol=item.symbol.removeprefix("t"),
                        exchange=self.exchange,
                        id=str(item.id),
                        price=item.price,
                        amount=abs(item.amount),
                        side="buy" if item.amount < 0 else "sell",
                        timestamp=ms_text(item.time_ms),
                        local_timestamp=local,
                    )
                )
