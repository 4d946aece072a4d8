"""Spot before v5: `{topic, params: {symbol}, data}`, with a whole book in every message."""

from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat
from tardis_machine.exchanges.venues.bybit.topics import TOPIC_TAG
from tardis_machine.model.records import BookTicker, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text

Data = TypeVar("Data")


class Params(Struct, gc=False):
    """What was subscribed to."""

    symbol: str


class Push(Struct, Generic[Data], gc=False):
    """A message; the answer to a subscription has no data."""

    params: Params
    data: Data | None = None


class TradeData(Struct, gc=False):
    """One trade; `m` says that the buyer is the taker."""

    v: str
    t: float
    p: float
    q: float
    m: bool


class DepthData(Struct, gc=False):
    """A whole book."""

    t: float
    b: list[Level]
    a: list[Level]


class TickerData(Struct, gc=False, rename="camel"):
    """The best levels."""

    bid_price: float
    bid_qty: float
    ask_price: float
    ask_qty: float
    time: float


class AnyMessage(Struct, gc=False):
    """Any message, for its symbol."""

    params: Params | None = None


class TradeMapper(Mapper):
    """`trade`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (Push[TradeData], self.map) if tag == "trade" else None

    def map(self, message: Push[TradeData], local: str, emit: Emit) -> None:
        """Emit the trade."""
        data = message.data
        if data is None:
            return
        emit(
            Trade(
                symbol=message.params.symbol,
                exchange=self.exchange,
                id=data.v,
                price=data.p,
                amount=data.q,
                side="buy" if data.m else "sell",
                timestamp=ms_text(data.t),
                local_timestamp=local,
            )
        )


class BookMapper(Mapper):
    """`depth`."""

    is_stateless = True
    books: ClassVar[TextLevels] = pair_levels(Push[DepthData], "data", bids="b", asks="a")

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (self.books, self.map) if tag == "depth" else None

    def map(self, message: Push[DepthData], local: str, emit: Emit) -> None:
        """Emit the book."""
        data = message.data
        if data is None:
            return
        emit(
            book_change(
                message.params.symbol,
                self.exchange,
                data.b,
                data.a,
                ms_text(data.t),
                local,
                is_snapshot=True,
            )
        )


class BookTickerMapper(Mapper):
    """`bookTicker`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (Push[TickerData], self.map) if tag == "bookTicker" else None

    def map(self, message: Push[TickerData], local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        data = message.data
        if data is None:
            return
        emit(
            BookTicker(
                symbol=message.params.symbol,
                exchange=self.exchange,
                ask_amount=data.ask_qty,
                ask_price=data.ask_price,
                bid_price=data.bid_price,
                bid_amount=data.bid_qty,
                timestamp=ms_text(data.time),
                local_timestamp=local,
            )
        )


_decode_any = msgspec.json.Decoder(AnyMessage).decode


def read_symbols(message: bytes) -> tuple[str, ...]:
    """Return the symbol that was subscribed to."""
    params = _decode_any(message).params
    return () if params is None else (params.symbol,)


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"event": "sub", "topic": "trade", "symbol": "BTCUSDT"}`."""
    if not isinstance(message, dict) or message.get("event") != "sub":
        return None
    return [Filter(message["topic"], (message["symbol"],))]


FORMAT = WireFormat(
    tag=TOPIC_TAG, locate=Filter, symbols=read_symbols, read_subscribe=read_subscribe
)
