"""Perpetual futures: `{time, channel, event, result}`, with sizes in contracts."""

from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from tardis_machine.exchanges.numbers import LooseNumber, nonzero, optional
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat
from tardis_machine.exchanges.tags import TextTag
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.exchanges.venues.gate_io.spot import locate
from tardis_machine.exchanges.venues.gate_io.spot_v3 import symbols_in
from tardis_machine.model.numbers import optional_number
from tardis_machine.model.records import BookChange, BookLevel, BookTicker, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text

EXCHANGE = "gate-io-futures"

Result = TypeVar("Result")


class Push(Struct, Generic[Result], gc=False):
    """A message with data."""

    result: Result
    time: float | None = None
    time_ms: float | None = None


class TradeItem(Struct, gc=False):
    """One trade; sales have a negative size."""

    contract: str
    size: float
    id: int
    price: float
    create_time: float | None = None
    create_time_ms: float | None = None


class Level(Struct, gc=False):
    """One level of a whole book."""

    p: float
    s: float


class Book(Struct, gc=False):
    """A whole book; one whose time is zero is none."""

    contract: str
    asks: list[Level]
    bids: list[Level]
    t: float | None = None


class Change(Struct, gc=False):
    """One changed level; asks have a negative size."""

    p: float
    s: float
    c: str
    t: float | None = None


class TickerItem(Struct, gc=False):
    """State of one contract."""

    contract: str | None = None
    last: LooseNumber = None
    total_size: LooseNumber = None
    mark_price: LooseNumber = None
    funding_rate: LooseNumber = None
    funding_rate_indicative: LooseNumber = None
    index_price: LooseNumber = None


class BookTickerResult(Struct, gc=False):
    """The best levels; where there is none, the price is empty and the size zero."""

    s: str
    t: float | None = None
    b: LooseNumber = None
    B: LooseNumber = None
    a: LooseNumber = None
    A: LooseNumber = None


Tickers: TypeAlias = list[TickerItem | list[Any]] | TickerItem
"""One or several; for a while they came as a list in a list, which is not read."""


class TradeMapper(Mapper):
    """`futures.trades`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (Push[list[TradeItem]], self.map) if tag == "futures.trades,update" else None

    def map(self, message: Push[list[TradeItem]], local: str, emit: Emit) -> None:
        """Emit one trade per item."""
        for item in message.result:
            emit(
                Trade(
                    symbol=item.contract,
                    exchange=EXCHANGE,
                    id=str(item.id),
                    price=item.price,
                    amount=abs(item.size),
                    side="sell" if item.size < 0 else "buy",
                    timestamp=time_text(item.create_time_ms, item.create_time),
                    local_timestamp=local,
                )
            )


class BookMapper(Mapper):
    """`futures.order_book`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        handlers: dict[str, Handler] = {
            "futures.order_book,all": (Push[Book], self.map_book),
            "futures.order_book,update": (Push[list[Change]], self.map_changes),
        }
        return handlers.get(tag)

    def map_book(self, message: Push[Book], local: str, emit: Emit) -> None:
        """Emit the book, if it has a time."""
        book = message.result
        if book.t == 0:
            return
        emit(
            BookChange(
                symbol=book.contract,
                exchange=EXCHANGE,
                is_snapshot=True,
                bids=[BookLevel(level.p, level.s) for level in book.bids],
                asks=[BookLevel(level.p, level.s) for level in book.asks],
                timestamp=time_text(message.time_ms or book.t, message.time),
                local_timestamp=local,
            )
        )

    def map_changes(self, message: Push[list[Change]], local: str, emit: Emit) -> None:
        """Emit changed levels; a removed one does not tell its side and leaves both."""
        changes = message.result
        if not changes:
            return
        emit(
            BookChange(
                symbol=changes[0].c,
                exchange=EXCHANGE,
                is_snapshot=False,
                bids=[BookLevel(each.p, each.s) for each in changes if each.s >= 0],
                asks=[BookLevel(each.p, abs(each.s)) for each in changes if each.s <= 0],
                timestamp=time_text(changes[0].t, message.time),
                local_timestamp=local,
            )
        )


class DerivativeTickerMapper(TickerMapper):
    """`futures.tickers`."""

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (Push[Tickers], self.map) if tag == "futures.tickers,update" else None

    def map(self, message: Push[Tickers], local: str, emit: Emit) -> None:
        """Emit each ticker of which a value changed."""
        items = message.result
        timestamp = time_text(message.time_ms, message.time)
        for item in items if isinstance(items, list) else [items]:
            if isinstance(item, list) or item.contract is None:
                return
            self._tickers.change(
                item.contract,
                timestamp,
                local,
                emit,
                last_price=optional_number(item.last),
                open_interest=optional_number(item.total_size),
                funding_rate=optional_number(item.funding_rate),
                predicted_funding_rate=optional_number(item.funding_rate_indicative),
                index_price=optional_number(item.index_price),
                mark_price=optional_number(item.mark_price),
            )


class BookTickerMapper(Mapper):
    """`futures.book_ticker`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (Push[BookTickerResult], self.map) if tag == "futures.book_ticker,update" else None

    def map(self, message: Push[BookTickerResult], local: str, emit: Emit) -> None:
        """Emit the best bid and ask of a contract that ever had one."""
        ticker = message.result
        if ticker.t == 0:
            return
        emit(
            BookTicker(
                symbol=ticker.s,
                exchange=EXCHANGE,
                ask_amount=nonzero(ticker.A),
                ask_price=optional(ticker.a),
                bid_price=optional(ticker.b),
                bid_amount=nonzero(ticker.B),
                timestamp=local if ticker.t is None else ms_text(ticker.t),
                local_timestamp=local,
            )
        )


def time_text(time_ms: float | None, seconds: float | None) -> str:
    """Return a time in milliseconds, or in seconds where a message has no others."""
    if time_ms:
        return ms_text(time_ms)
    if seconds is None:
        raise ValueError("a message has no time")
    return ms_text(seconds * 1000)


class SymbolItem(Struct, gc=False):
    """What names the contract in any result."""

    contract: str | None = None
    c: str | None = None
    s: Any = None


class AnyMessage(Struct, gc=False):
    """Any message, for its contracts."""

    result: list[SymbolItem | list[Any]] | SymbolItem | None = None


_decode_any = msgspec.json.Decoder(AnyMessage).decode


def read_symbols(message: bytes) -> tuple[str, ...]:
    """Return the contracts that a message is about; answers to requests are about none."""
    result = _decode_any(message).result
    items = result if isinstance(result, list) else [result or SymbolItem()]
    names = {item.contract or item.c or item.s for item in items if isinstance(item, SymbolItem)}
    return tuple(name for name in names if isinstance(name, str))


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"channel": "futures.trades", "event": "subscribe", "payload": ["BTC_USD"]}`."""
    if not isinstance(message, dict) or message.get("event") != "subscribe":
        return None
    return [Filter(message["channel"].split(".")[1], symbols_in(message["payload"]))]


FORMAT = WireFormat(
    tag=TextTag("channel", "event"),
    locate=locate,
    symbols=read_symbols,
    read_subscribe=read_subscribe,
)
