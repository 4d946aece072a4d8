"""Spot markets."""

from collections.abc import Iterable

from msgspec import Struct

from tardis_machine.exchanges.levels import Level
from tardis_machine.exchanges.numbers import optional
from tardis_machine.exchanges.protocols.combined_depth import DepthData, DepthMessage
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.venues.kucoin import books
from tardis_machine.exchanges.venues.kucoin.books import Push, SnapshotMessage, symbol_of
from tardis_machine.model.records import BookTicker, Trade
from tardis_machine.model.time import ms_text, ns_text

EXCHANGE = "kucoin"


class TradeData(Struct, gc=False, rename="camel"):
    """One trade, with the taker's side and a time in nanoseconds."""

    symbol: str
    side: str
    size: float
    price: float
    time: int
    trade_id: str


class TradeMessage(Struct, gc=False):
    """A `market/match` message."""

    data: TradeData


class Changes(Struct, gc=False):
    """Changed levels."""

    asks: list[Level] = []
    bids: list[Level] = []


class UpdateData(Struct, gc=False, rename="camel"):
    """Changed levels and the numbers of the first and the last change."""

    changes: Changes
    sequence_start: int
    sequence_end: int
    time: float | None = None


class TickerData(Struct, gc=False, rename="camel"):
    """The best levels."""

    time: float
    best_ask: float | None = None
    best_ask_size: float | None = None
    best_bid: float | None = None
    best_bid_size: float | None = None


class TradeMapper(Mapper):
    """`market/match`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if tag.startswith("/market/match:") else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit the trade."""
        data = message.data
        emit(
            Trade(
                symbol=data.symbol,
                exchange=EXCHANGE,
                id=data.trade_id,
                price=data.price,
                amount=data.size,
                side="sell" if data.side == "sell" else "buy",
                timestamp=ns_text(data.time),
                local_timestamp=local,
            )
        )


class BookMapper(books.BookMapper):
    """`market/level2`, and `market/level2Snapshot` of the REST API."""

    keeps_removed = True

    def handler(self, tag: str) -> Handler | None:
        """Handle updates and snapshots."""
        if tag.startswith("/market/level2:"):
            return Push[UpdateData], self.map_update
        is_snapshot = tag.startswith("/market/level2Snapshot:")
        return (SnapshotMessage, self.map_snapshot) if is_snapshot else None

    def map_update(self, message: Push[UpdateData], local: str, emit: Emit) -> None:
        """Emit the update, or keep it for the snapshot; one without levels only counts."""
        data = message.data
        update = DepthData(
            E=data.time,
            s=symbol_of(message.topic),
            U=data.sequence_start,
            u=data.sequence_end,
            b=real_levels(data.changes.bids),
            a=real_levels(data.changes.asks),
        )
        book = self._books.get(update.s)
        if update.b or update.a or book is None or book.buffer is not None:
            self.map(DepthMessage("", update), local, emit)
        else:
            self._continues(book, update)


class BookTickerMapper(Mapper):
    """`market/ticker`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (Push[TickerData], self.map) if tag.startswith("/market/ticker:") else None

    def map(self, message: Push[TickerData], local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        data = message.data
        emit(
            BookTicker(
                symbol=symbol_of(message.topic),
                exchange=EXCHANGE,
                ask_amount=optional(data.best_ask_size),
                ask_price=optional(data.best_ask),
                bid_price=optional(data.best_bid),
                bid_amount=optional(data.best_bid_size),
                timestamp=ms_text(data.time),
                local_timestamp=local,
            )
        )


def real_levels(levels: Iterable[Level]) -> list[Level]:
    """Leave out levels without a price, which only tell a sequence number."""
    return [level for level in levels if level.price != 0]
