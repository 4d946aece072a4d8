"""Protocol v5: `{arg: {channel, …}, data}`, where `arg` is what the client subscribed to."""

from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from tardis_machine.exchanges.level_texts import TextLevels, has_levels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.protocols.checksums import ALTERNATING, CheckedBookMapper, RawPair
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat
from tardis_machine.exchanges.tags import StartTag
from tardis_machine.exchanges.venues.okex import v3
from tardis_machine.model.records import BookTicker, SnapshotLevel, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text

NO_LEVEL = SnapshotLevel()

Item = TypeVar("Item")


class Argument(Struct, gc=False, rename="camel", omit_defaults=True):
    """What was subscribed to: one instrument or spread, a family, or all of a type."""

    channel: str
    inst_id: str | None = None
    inst_family: str | None = None
    uly: str | None = None
    inst_type: str | None = None
    sprd_id: str | None = None

    @property
    def symbol(self) -> str | None:
        """Return the symbol that filters know it by, None when it names none."""
        return self.inst_id or self.inst_family or self.uly or self.sprd_id


class Header(Struct, gc=False):
    """The part of a message that tells channels apart; an event is the answer to a request."""

    arg: Argument | None = None
    event: str | None = None


class Instrument(Struct, gc=False, rename="camel"):
    """The one instrument a message is about."""

    inst_id: str


class Push(Struct, Generic[Item], gc=False):
    """A message whose items name their instrument; without data it has no news."""

    data: list[Item] = []


class InstrumentPush(Struct, Generic[Item], gc=False):
    """A message about one instrument, which its items do not name; only books have an action."""

    arg: Instrument
    data: list[Item] = []
    action: str | None = None


class TradeItem(Struct, gc=False, rename="camel"):
    """One trade."""

    inst_id: str
    trade_id: str
    px: float
    sz: float
    side: str
    ts: float


class BookItem(Struct, gc=False, rename="camel"):
    """Changed levels of a book, all of them, or the best one of each side."""

    ts: float
    seq_id: int | None = None
    prev_seq_id: int | None = None
    bids: list[Level] = []
    asks: list[Level] = []


class CheckedBook(BookItem, gc=False):
    """The same with the checksum of the book after it."""

    checksum: Any = None


class RawBook(Struct, gc=False):
    """The levels of the same as they stand in the message."""

    bids: list[RawPair] = []
    asks: list[RawPair] = []


class TickerItem(Struct, gc=False, rename="camel"):
    """State of one instrument; prices may be empty."""

    inst_id: str
    ts: float
    last: LooseNumber = None
    bid_px: LooseNumber = None
    bid_sz: LooseNumber = None
    ask_px: LooseNumber = None
    ask_sz: LooseNumber = None


class TradeMapper(Mapper):
    """`trades`, which joins the fills of one taker order at one price."""

    is_stateless = True
    channels: ClassVar[tuple[str, ...]] = ("trades",)

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (Push[TradeItem], self.map) if tag in self.channels else None

    def map(self, message: Push[TradeItem], local: str, emit: Emit) -> None:
        """Emit one trade per item, with the taker's side."""
        for item in message.data:
            emit(
                Trade(
                    symbol=item.inst_id,
                    exchange=self.exchange,
                    id=item.trade_id,
                    price=item.px,
                    amount=item.sz,
                    side="buy" if item.side == "buy" else "sell",
                    timestamp=ms_text(item.ts),
                    local_timestamp=local,
                )
            )


class AllTradesMapper(TradeMapper):
    """`trades-all`, one trade per fill; `trades` is still understood."""

    channels = ("trades", "trades-all")


_decode_book = msgspec.json.Decoder(CheckedBook, strict=False).decode


class BookMapper(CheckedBookMapper):
    """`books`."""

    channel = "books"
    formula = ALTERNATING
    raw_sides = RawBook
    books: ClassVar[TextLevels] = pair_levels(
        InstrumentPush[BookItem], "data", bids="bids", asks="asks"
    )

    def handler(self, tag: str) -> Handler | None:
        """Handle the one channel that books are read from."""
        if tag != self.channel:
            return None
        if self.checks_sequence:
            return InstrumentPush[Raw], self.map_live
        return self.books, self.map

    def map(self, message: InstrumentPush[BookItem], local: str, emit: Emit) -> None:
        """Emit each book, or what changed of it."""
        for item in message.data:
            self._emit(message.arg.inst_id, message.action, item, local, emit)

    def map_live(self, message: InstrumentPush[Raw], local: str, emit: Emit) -> None:
        """Emit each book, or what changed of it, if nothing is missing before it."""
        symbol, is_snapshot = message.arg.inst_id, message.action != "update"
        for raw in message.data:
            item = _decode_book(raw)
            # An idle book repeats its number.
            ids = item.prev_seq_id, item.seq_id
            if self.follows(symbol, *ids, is_snapshot=is_snapshot):
                self.compare(symbol, item, raw, local, is_snapshot=is_snapshot)
                self._emit(symbol, message.action, item, local, emit)

    def _emit(
        self, symbol: str, action: str | None, item: BookItem, local: str, emit: Emit
    ) -> None:
        """Emit a book that has a time; an idle one sends updates without levels."""
        bids, asks = item.bids, item.asks
        is_idle = action == "update" and not (has_levels(bids) or has_levels(asks))
        if item.ts == 0 or is_idle:
            return
        emit(
            book_change(
                symbol,
                self.exchange,
                bids,
                asks,
                ms_text(item.ts),
                local,
                is_snapshot=action == "snapshot",
            )
        )


class TickByTickBookMapper(BookMapper):
    """`books-l2-tbt`."""

    channel = "books-l2-tbt"


class ShallowBookMapper(BookMapper):
    """`books50-l2-tbt`, for whoever has logged in."""

    channel = "books50-l2-tbt"


class BookTickerMapper(Mapper):
    """`bbo-tbt`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (InstrumentPush[BookItem], self.map) if tag == "bbo-tbt" else None

    def map(self, message: InstrumentPush[BookItem], local: str, emit: Emit) -> None:
        """Emit the best bid and ask; a side may be empty."""
        symbol = message.arg.inst_id
        for item in message.data:
            bid = item.bids[0] if item.bids else NO_LEVEL
            ask = item.asks[0] if item.asks else NO_LEVEL
            emit(
                BookTicker(
                    symbol=symbol,
                    exchange=self.exchange,
                    ask_amount=ask.amount,
                    ask_price=ask.price,
                    bid_price=bid.price,
                    bid_amount=bid.amount,
                    timestamp=ms_text(item.ts),
                    local_timestamp=local,
                )
            )


class TickerBookTickerMapper(Mapper):
    """`tickers`, for their best levels: there was no `bbo-tbt` at first."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (Push[TickerItem], self.map) if tag == "tickers" else None

    def map(self, message: Push[TickerItem], local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        for item in message.data:
            emit(
                BookTicker(
                    symbol=item.inst_id,
                    exchange=self.exchange,
                    ask_amount=nonzero(item.ask_sz),
                    ask_price=nonzero(item.ask_px),
                    bid_price=nonzero(item.bid_px),
                    bid_amount=nonzero(item.bid_sz),
                    timestamp=ms_text(item.ts),
                    local_timestamp=local,
                )
            )


_header = msgspec.json.Decoder(Header)


def read_channel(header: Header) -> str | None:
    """Return the channel of a push; answers to requests have none."""
    return None if header.arg is None or header.event is not None else header.arg.channel


def read_symbols(message: bytes) -> tuple[str, ...]:
    """Return the symbol that was subscribed to; `liquidation-orders` come for all of a type."""
    arg = _header.decode(message).arg
    symbol = None if arg is None else arg.symbol
    return (symbol,) if symbol else ()


FORMAT = WireFormat(
    tag=StartTag(b'{"arg":{"channel":"', Header, read_channel),
    locate=Filter,
    symbols=read_symbols,
    # Clients have always sent the older form, whatever they replayed.
    read_subscribe=v3.read_subscribe,
)
