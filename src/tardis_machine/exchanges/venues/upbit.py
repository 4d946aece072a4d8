"""Upbit: flat messages with type and code; every book is whole."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    Verdict,
    symbols_of,
)
from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.spec import (
    Emit,
    Handler,
    Mapper,
    Venue,
    WireFormat,
    always,
    one_symbol,
)
from tardis_machine.exchanges.tags import StartTag
from tardis_machine.model.records import BookChange, BookLevel, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import auto_text

EXCHANGE = "upbit"
URL = "wss://api.upbit.com/websocket/v1"


class Header(Struct, gc=False):
    """The part of a message that tells channels apart."""

    type: str | None = None
    code: str | None = None


class TradeMessage(Struct, gc=False):
    """One trade; `ask_bid` is the taker's side."""

    code: str
    trade_timestamp: float
    trade_price: float
    trade_volume: float
    ask_bid: str
    sequential_id: int


class Unit(Struct, gc=False):
    """The levels of both sides at one depth; a price of zero is none."""

    ask_price: float
    bid_price: float
    ask_size: float
    bid_size: float


class BookMessage(Struct, gc=False):
    """A whole book."""

    code: str
    timestamp: float
    orderbook_units: list[Unit]


class TradeMapper(Mapper):
    """`trade`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if tag == "trade" else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit the trade."""
        emit(
            Trade(
                symbol=message.code,
                exchange=EXCHANGE,
                id=str(message.sequential_id),
                price=message.trade_price,
                amount=message.trade_volume,
                side="sell" if message.ask_bid == "ASK" else "buy",
                timestamp=auto_text(message.trade_timestamp),
                local_timestamp=local,
            )
        )


class BookMapper(Mapper):
    """`orderbook`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (BookMessage, self.map) if tag == "orderbook" else None

    def map(self, message: BookMessage, local: str, emit: Emit) -> None:
        """Emit the book."""
        bids: list[BookLevel] = []
        asks: list[BookLevel] = []
        for unit in message.orderbook_units:
            if unit.bid_price > 0:
                bids.append(BookLevel(unit.bid_price, unit.bid_size))
            if unit.ask_price > 0:
                asks.append(BookLevel(unit.ask_price, unit.ask_size))
        emit(
            BookChange(
                symbol=message.code,
                exchange=EXCHANGE,
                is_snapshot=True,
                bids=bids,
                asks=asks,
                timestamp=auto_text(message.timestamp),
                local_timestamp=local,
            )
        )


_decode_header = msgspec.json.Decoder(Header).decode


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `[{"ticket": "x"}, {"type": "orderbook", "codes": ["KRW-BTC"]}]`."""
    if not isinstance(message, list):
        return None
    wanted = [entry for entry in message if entry.get("type")]
    return [Filter(entry["type"], tuple(entry.get("codes") or ()) or None) for entry in wanted]


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Ask for everything on one socket, by one frame."""
    wanted = optimize_filters(filters)
    subscriptions = [
        {"type": entry.channel, "codes": symbols_of(EXCHANGE, entry), "isOnlyRealtime": True}
        for entry in wanted
    ]
    ticket = {"ticket": str(access.now_us // 1000)}
    frame = msgspec.json.encode([ticket, *subscriptions]).decode()
    return [FeedConnection(url=access.url(EXCHANGE, URL), filters=wanted, frames=(frame,))]


def unpack(frame: bytes) -> bytes:
    """Take a binary frame as the text that it is."""
    return frame.decode().encode()


def judge(message: bytes) -> Verdict:
    """Find refusals."""
    return Verdict.ERROR if _decode_header(message).type == "error" else Verdict.IGNORED


FORMAT = WireFormat(
    tag=StartTag(b'{"type":"', Header, lambda message: message.type),
    locate=Filter,
    symbols=one_symbol(Header, lambda header: header.code),
    read_subscribe=read_subscribe,
)

VENUES = {
    EXCHANGE: Venue(
        formats=(FORMAT,),
        versions={
            "trade": always(TradeMapper, "trade", convert=str.upper),
            "book_change": always(BookMapper, "orderbook", convert=str.upper),
        },
        feed=Feed(
            connections=connections,
            read_subscribe=read_subscribe,
            judge=judge,
            books=BookSequence.WHOLE,
            unpack=unpack,
            replaces=True,
        ),
    )
}
