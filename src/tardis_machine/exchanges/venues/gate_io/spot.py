"""Spot in WebSocket v4: `{channel, event, result}`; answers to requests are events, too."""

from functools import lru_cache
from typing import ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

from tardis_machine.exchanges.chains import NumberedBookMapper
from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.numbers import LooseNumber, optional
from tardis_machine.exchanges.protocols import combined_depth
from tardis_machine.exchanges.protocols.combined_depth import DepthData, DepthMessage
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat
from tardis_machine.exchanges.tags import SEPARATOR, TextTag
from tardis_machine.exchanges.venues.gate_io import spot_v3
from tardis_machine.model.records import BookTicker, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text

EXCHANGE = "gate-io"

Result = TypeVar("Result")


class Push(Struct, Generic[Result], gc=False):
    """A message with data."""

    result: Result


class TradeResult(Struct, gc=False):
    """One trade."""

    id: int
    create_time_ms: float
    side: str
    currency_pair: str
    amount: float
    price: float


class BookResult(Struct, gc=False):
    """Changed levels of a book, or all of them."""

    t: float
    s: str
    full: bool = False
    U: int = 0
    u: int = 0
    b: list[Level] | None = None
    a: list[Level] | None = None


class UpdateResult(Struct, gc=False):
    """Changed levels of a book in its older form."""

    t: float
    s: str
    U: int
    u: int
    b: list[Level]
    a: list[Level]


class SnapshotResult(Struct, gc=False):
    """All levels of a book."""

    id: int
    update: float
    asks: list[Level]
    bids: list[Level]


class SnapshotMessage(Struct, gc=False):
    """A message made from a REST answer."""

    symbol: str
    result: SnapshotResult


class TickerResult(Struct, gc=False):
    """The best levels."""

    s: str
    t: float | None = None
    b: LooseNumber = None
    B: LooseNumber = None
    a: LooseNumber = None
    A: LooseNumber = None


class TradeMapper(Mapper):
    """`spot.trades`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (Push[TradeResult], self.map) if tag == "spot.trades,update" else None

    def map(self, message: Push[TradeResult], local: str, emit: Emit) -> None:
        """Emit the trade."""
        trade = message.result
        emit(
            Trade(
                symbol=trade.currency_pair,
                exchange=EXCHANGE,
                id=str(trade.id),
                price=trade.price,
                amount=trade.amount,
                side="sell" if trade.side == "sell" else "buy",
                timestamp=ms_text(trade.create_time_ms),
                local_timestamp=local,
            )
        )


class JoinedBookMapper(combined_depth.BookMapper):
    """`spot.order_book_update`, joined to snapshots of the REST API; recordings alone have it."""

    updates: ClassVar[TextLevels] = pair_levels(Push[UpdateResult], "result", bids="b", asks="a")
    keeps_removed = True

    def handler(self, tag: str) -> Handler | None:
        """Handle updates and generated snapshots."""
        handlers: dict[str, Handler] = {
            "spot.order_book_update,update": (self.updates, self.map_update),
            "spot.order_book_update,snapshot": (SnapshotMessage, self.map_snapshot),
        }
        return handlers.get(tag)

    def map_update(self, message: Push[UpdateResult], local: str, emit: Emit) -> None:
        """Emit the update, or keep it for the snapshot."""
        result = message.result
        data = DepthData(E=result.t, s=result.s, U=result.U, u=result.u, b=result.b, a=result.a)
        self.map(DepthMessage("", data), local, emit)

    def map_snapshot(self, message: SnapshotMessage, local: str, emit: Emit) -> None:
        """Emit the snapshot with the updates that came before it, once."""
        result = message.result
        data = DepthData(T=result.update, bids=result.bids, asks=result.asks)
        self._map_snapshot(message.symbol, data, result.id, local, emit)


class BookMapper(NumberedBookMapper):
    """`spot.obu`."""

    books: ClassVar[TextLevels] = pair_levels(Push[BookResult], "result", bids="b", asks="a")

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (self.books, self.map) if tag == "spot.obu,update" else None

    def map(self, message: Push[BookResult], local: str, emit: Emit) -> None:
        """Emit the book, or what changed of it."""
        result = message.result
        symbol = book_symbol(result.s)
        ids = result.U - 1, result.u
        if self.checks_sequence and not self.follows(symbol, *ids, is_snapshot=result.full):
            return
        emit(
            book_change(
                symbol,
                EXCHANGE,
                result.b or (),
                result.a or (),
                ms_text(result.t),
                local,
                is_snapshot=result.full,
            )
        )


class BookTickerMapper(Mapper):
    """`spot.book_ticker`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (Push[TickerResult], self.map) if tag == "spot.book_ticker,update" else None

    def map(self, message: Push[TickerResult], local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        ticker = message.result
        emit(
            BookTicker(
                symbol=ticker.s,
                exchange=EXCHANGE,
                ask_amount=optional(ticker.A),
                ask_price=optional(ticker.a),
                bid_price=optional(ticker.b),
                bid_amount=optional(ticker.B),
                timestamp=local if ticker.t is None else ms_text(ticker.t),
                local_timestamp=local,
            )
        )


@lru_cache(maxsize=8192)
def book_symbol(name: str) -> str:
    """Return the symbol of `ob.BTC_USDT.400`."""
    return name[3:].rpartition(".")[0]


class SymbolResult(Struct, gc=False):
    """What names the symbol in any result."""

    currency_pair: str | None = None
    s: str | None = None


class AnyMessage(Struct, gc=False):
    """Any message, for its symbol."""

    symbol: str | None = None
    result: SymbolResult | None = None


_decode_any = msgspec.json.Decoder(AnyMessage).decode


def read_symbols(message: bytes) -> tuple[str, ...]:
    """Return the symbol that a message is about; answers to requests are about none."""
    decoded = _decode_any(message)
    result = decoded.result or SymbolResult()
    name = decoded.symbol or result.currency_pair or result.s
    if name is None:
        return ()
    return (book_symbol(name) if name.startswith("ob.") else name,)


def locate(tag: str) -> Filter:
    """Return the channel: `trades` of `spot.trades,update`."""
    channel = tag.partition(SEPARATOR)[0]
    return Filter(channel.partition(".")[2] or channel)


FORMAT = WireFormat(
    tag=TextTag("channel", "event"),
    locate=locate,
    symbols=read_symbols,
    # Clients have always sent the older form, whatever they replayed.
    read_subscribe=spot_v3.read_subscribe,
)
