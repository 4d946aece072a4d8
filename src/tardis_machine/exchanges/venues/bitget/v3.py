"""WebSocket v3: `{action, arg: {topic, symbol}, data, ts}`."""

from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.protocols.checksums import ALTERNATING, CheckedBookMapper, RawPair
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat, one_symbol
from tardis_machine.exchanges.tags import TextTag
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.exchanges.venues.bitget import v2
from tardis_machine.exchanges.venues.bitget.fields import (
    LooseLevel,
    funding_of,
    locate,
    read_subscribe,
)
from tardis_machine.model.numbers import optional_number
from tardis_machine.model.records import AnyBookChange, Liquidation
from tardis_machine.model.time import ms_text

Item = TypeVar("Item")

SIDES = {"bids": "b", "asks": "a"}
TRADE_KEYS = {"trade_id": "i", "price": "p", "size": "v", "side": "S", "ts": "T"}


class Argument(Struct, gc=False):
    """What was subscribed to."""

    symbol: str


class Push(Struct, Generic[Item], gc=False):
    """A message about one symbol."""

    arg: Argument
    data: list[Item]
    action: str
    ts: float | None = None


class TradeItem(Struct, gc=False, rename=TRADE_KEYS):
    """One trade."""

    ts: float
    price: float
    size: float
    side: str
    trade_id: str


class BookItem(Struct, gc=False, rename=SIDES):
    """Changed levels of a book, or all of them; `pseq` is the number of the message before."""

    asks: list[Level]
    bids: list[Level]
    ts: float
    seq: int | None = None
    pseq: int | None = None


class CheckedBook(BookItem, gc=False):
    """The same with the checksum of the book after it."""

    checksum: Any = None


class RawBook(Struct, gc=False, rename=SIDES):
    """The levels of the same as they stand in the message."""

    bids: list[RawPair]
    asks: list[RawPair]


class BestItem(Struct, gc=False, rename=SIDES):
    """The best level."""

    ts: float
    asks: list[LooseLevel] = []
    bids: list[LooseLevel] = []


class TickerItem(Struct, gc=False, rename="camel"):
    """State of one contract."""

    last_price: LooseNumber = None
    index_price: LooseNumber = None
    mark_price: LooseNumber = None
    open_interest: LooseNumber = None
    funding_rate: LooseNumber = None
    next_funding_time: LooseNumber = None


class LiquidationItem(Struct, gc=False):
    """One liquidation; `side` is that of the position."""

    symbol: str
    side: str
    price: float
    amount: float
    ts: float


class LiquidationMessage(Struct, gc=False):
    """A message about all contracts of a product."""

    data: list[LiquidationItem]


class AnyArgument(Struct, gc=False):
    """What was subscribed to, for its symbol; liquidations come for all."""

    symbol: str | None = None


class AnyMessage(Struct, gc=False):
    """Any message, for its symbol."""

    arg: AnyArgument


class TradeMapper(v2.TradeMapper):
    """`publicTrade`, without those from before the subscription."""

    def handler(self, tag: str) -> Handler | None:
        """Handle new trades."""
        return (Push[TradeItem], self.map) if tag == "update,publicTrade" else None


_decode_book = msgspec.json.Decoder(CheckedBook, strict=False).decode


class BookMapper(CheckedBookMapper):
    """`books`."""

    formula = ALTERNATING
    raw_sides = RawBook
    books: ClassVar[TextLevels] = pair_levels(Push[BookItem], "data", bids="bids", asks="asks")

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        if tag not in ("snapshot,books", "update,books"):
            return None
        if self.checks_sequence:
            return Push[Raw], self.map_live
        return self.books, self.map

    def map(self, message: Push[BookItem], local: str, emit: Emit) -> None:
        """Emit the book, or what changed of it."""
        is_snapshot = message.action == "snapshot"
        for item in message.data:
            emit(self._change(message.arg.symbol, item, local, is_snapshot=is_snapshot))

    def map_live(self, message: Push[Raw], local: str, emit: Emit) -> None:
        """Emit the book, or what changed of it, if nothing is missing before it."""
        symbol, is_snapshot = message.arg.symbol, message.action == "snapshot"
        for raw in message.data:
            item = _decode_book(raw)
            if self.follows(symbol, item.pseq, item.seq, is_snapshot=is_snapshot):
                self.compare(symbol, item, raw, local, is_snapshot=is_snapshot)
                emit(self._change(symbol, item, local, is_snapshot=is_snapshot))

    def _change(
        self, symbol: str, item: BookItem, local: str, *, is_snapshot: bool
    ) -> AnyBookChange:
        return book_change(
            symbol,
            self.exchange,
            item.bids,
            item.asks,
            ms_text(item.ts),
            local,
            is_snapshot=is_snapshot,
        )


class BookTickerMapper(v2.BookTickerMapper):
    """`books1`, where zero stands for no value."""

    number = staticmethod(nonzero)

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (Push[BestItem], self.map) if tag == "snapshot,books1" else None


class DerivativeTickerMapper(TickerMapper):
    """`ticker`."""

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        is_ticker = tag in ("snapshot,ticker", "update,ticker")
        return (Push[TickerItem], self.map) if is_ticker else None

    def map(self, message: Push[TickerItem], local: str, emit: Emit) -> None:
        """Emit the ticker if a value changed."""
        if message.ts is None:
            raise ValueError("a ticker has no time `ts`")
        for item in message.data:
            funding_rate, paid = funding_of(item.funding_rate, item.next_funding_time)
            self._tickers.change(
                message.arg.symbol,
                ms_text(message.ts),
                local,
                emit,
                last_price=optional_number(item.last_price),
                open_interest=optional_number(item.open_interest),
                funding_rate=funding_rate,
                funding_timestamp=paid,
                index_price=optional_number(item.index_price),
                mark_price=optional_number(item.mark_price),
            )


class LiquidationMapper(Mapper):
    """`liquidation`, which has no symbol of its own."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle liquidations."""
        return (LiquidationMessage, self.map) if tag == "update,liquidation" else None

    def map(self, message: LiquidationMessage, local: str, emit: Emit) -> None:
        """Emit one liquidation per item; a long position is closed by a sale."""
        for item in message.data:
            emit(
                Liquidation(
                    symbol=item.symbol,
                    exchange=self.exchange,
                    price=item.price,
                    amount=item.amount,
                    side="sell" if item.side == "buy" else "buy",
                    timestamp=ms_text(item.ts),
                    local_timestamp=local,
                )
            )


FORMAT = WireFormat(
    tag=TextTag("action", "arg.topic"),
    locate=locate,
    symbols=one_symbol(AnyMessage, lambda message: message.arg.symbol),
    read_subscribe=read_subscribe,
)
