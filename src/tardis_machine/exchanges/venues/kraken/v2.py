"""WebSocket v2: objects of channel, type and data, whose numbers are JSON numbers."""

from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.protocols.checksums import ASKS_FIRST, CheckedBookMapper
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat
from tardis_machine.exchanges.tags import StartTag
from tardis_machine.exchanges.venues.kraken.v1 import read_subscribe
from tardis_machine.model.records import BookChange, BookLevel, BookTicker, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import iso_us_text

EPOCH = "1970-01-01T00:00:00.000000Z"
"""The time of a ticker whose market never had an order."""


class Channel(Struct, gc=False):
    """The part of a message that tells channels apart."""

    channel: str | None = None


class TradeItem(Struct, gc=False):
    """One trade of a `trade` message."""

    symbol: str
    side: Literal["buy", "sell"]
    price: float
    qty: float
    trade_id: int
    timestamp: str


class TradeMessage(Struct, gc=False):
    """A `trade` message."""

    type: str
    data: list[TradeItem]


class Level(Struct, gc=False, rename={"amount": "qty"}):
    """One price level."""

    price: float
    amount: float


class BookItem(Struct, gc=False):
    """The levels of one symbol; a side may be missing."""

    symbol: str
    bids: list[Level] = []
    asks: list[Level] = []
    timestamp: str | None = None


class BookMessage(Struct, gc=False):
    """A `book` message."""

    type: str
    data: list[BookItem]


class RawBookMessage(Struct, gc=False):
    """A `book` message whose items are not decoded yet."""

    type: str
    data: list[Raw]


class CheckedBook(BookItem, gc=False):
    """The levels of one symbol, and the checksum of the book with them."""

    checksum: Any = None


class RawLevel(Struct, gc=False, rename={"amount": "qty"}):
    """One price level as it stands in the message."""

    price: Raw
    amount: Raw


class RawBook(Struct, gc=False):
    """The levels of one symbol as they stand in the message."""

    bids: list[RawLevel] = []
    asks: list[RawLevel] = []


class TickerItem(Struct, gc=False):
    """The ticker of one symbol."""

    symbol: str
    bid: LooseNumber = None
    bid_qty: LooseNumber = None
    ask: LooseNumber = None
    ask_qty: LooseNumber = None
    timestamp: str | None = None


class TickerMessage(Struct, gc=False):
    """A `ticker` message."""

    data: list[TickerItem]


class SymbolItem(Struct, gc=False):
    """Any item, for its symbol."""

    symbol: str | None = None


class Lists(Struct, gc=False):
    """The data of `instrument`, which is about all symbols."""


class AnyMessage(Struct, gc=False):
    """Any message, for its symbols."""

    data: list[SymbolItem] | Lists = []


class TradeMapper(Mapper):
    """`trade`, without those from before the subscription."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if tag == "trade" else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit new trades."""
        if message.type != "update":
            return
        for item in message.data:
            emit(
                Trade(
                    symbol=item.symbol,
                    exchange=self.exchange,
                    id=str(item.trade_id),
                    price=item.price,
                    amount=item.qty,
                    side=item.side,
                    timestamp=iso_us_text(item.timestamp),
                    local_timestamp=local,
                )
            )


_decode_book = msgspec.json.Decoder(CheckedBook, strict=False).decode


class BookMapper(CheckedBookMapper):
    """`book`, which has no numbers: a lost update shows in the checksum alone."""

    formula = ASKS_FIRST
    raw_sides = RawBook

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        if tag != "book":
            return None
        return (RawBookMessage, self.map_live) if self.checks_sequence else (BookMessage, self.map)

    def map(self, message: BookMessage, local: str, emit: Emit) -> None:
        """Emit whole books or changed levels."""
        is_snapshot = message.type == "snapshot"
        for item in message.data:
            emit(self._change(item, local, is_snapshot=is_snapshot))

    def map_live(self, message: RawBookMessage, local: str, emit: Emit) -> None:
        """Emit whole books, or changed levels of those that have begun."""
        is_snapshot = message.type == "snapshot"
        for raw in message.data:
            item = _decode_book(raw)
            if self.follows(item.symbol, None, None, is_snapshot=is_snapshot):
                self.compare(item.symbol, item, raw, local, is_snapshot=is_snapshot)
                emit(self._change(item, local, is_snapshot=is_snapshot))

    def _change(self, item: BookItem, local: str, *, is_snapshot: bool) -> BookChange:
        return BookChange(
            symbol=item.symbol,
            exchange=self.exchange,
            is_snapshot=is_snapshot,
            bids=[BookLevel(level.price, level.amount) for level in item.bids],
            asks=[BookLevel(level.price, level.amount) for level in item.asks],
            timestamp=local if item.timestamp is None else iso_us_text(item.timestamp),
            local_timestamp=local,
        )


class BookTickerMapper(Mapper):
    """`ticker`, for its best levels."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (TickerMessage, self.map) if tag == "ticker" else None

    def map(self, message: TickerMessage, local: str, emit: Emit) -> None:
        """Emit the best bid and ask of markets that ever had one."""
        for item in message.data:
            timestamp = local if item.timestamp is None else iso_us_text(item.timestamp)
            if timestamp == EPOCH:
                continue
            emit(
                BookTicker(
                    symbol=item.symbol,
                    exchange=self.exchange,
                    ask_amount=nonzero(item.ask_qty),
                    ask_price=nonzero(item.ask),
                    bid_price=nonzero(item.bid),
                    bid_amount=nonzero(item.bid_qty),
                    timestamp=timestamp,
                    local_timestamp=local,
                )
            )


_decode_any = msgspec.json.Decoder(AnyMessage).decode


def message_symbols(message: bytes) -> tuple[str, ...]:
    """Return the symbols a message is about; none for the whole channel."""
    data = _decode_any(message).data
    if isinstance(data, Lists):
        return ()
    return tuple(item.symbol for item in data if item.symbol is not None)


FORMAT = WireFormat(
    tag=StartTag(b'{"channel":"', Channel, lambda message: message.channel),
    locate=Filter,
    symbols=message_symbols,
    # The form of v1 clients: those of v2 send what the feed sends.
    read_subscribe=read_subscribe,
)
