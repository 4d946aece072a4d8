"""Gemini: messages with a type until July 2026, since then objects that are told by their keys."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Struct

from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    Verdict,
    symbols_of,
)
from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.spec import (
    Emit,
    Handler,
    Mapper,
    Venue,
    Version,
    WireFormat,
    channel_filters,
    one_symbol,
)
from tardis_machine.exchanges.tags import KeyTag, StartTag
from tardis_machine.model.records import BookChange, BookLevel, BookTicker, Side, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text, ns_text

EXCHANGE = "gemini"
URL = "wss://ws.gemini.com?snapshot=-1"
"""The parameter asks for whole books as the first updates."""

OLD_CHANNELS = ("trade", "l2_updates", "auction_open", "auction_indicative", "auction_result")
"""What subscribing `l2` brought."""

CHANNELS = {"t": "trade", "B": "bookTicker", "e": "depth"}
"""Channels by the key that only their messages have."""

SPEEDS = {"depth": "@100ms"}

SIDES: dict[str, Side] = {"buy": "buy", "sell": "sell"}

BAD_REQUEST = 400


class Type(Struct, gc=False):
    """The part of an old message that tells channels apart."""

    type: str | None = None


class OldTrade(Struct, gc=False):
    """A trade; the side of blocks and auctions is none."""

    symbol: str
    event_id: int
    timestamp: float
    price: float
    quantity: float
    side: str


class Change(Struct, gc=False, array_like=True):
    """One changed level."""

    side: str
    price: float
    amount: float


class L2Updates(Struct, gc=False):
    """Changed levels; only the first message, with all levels, has auction events."""

    symbol: str
    changes: list[Change]
    auction_events: Any = UNSET


class OldSymbol(Struct, gc=False):
    """Any old message, for its symbol."""

    symbol: str | None = None


class NewTrade(Struct, gc=False):
    """A trade; `m` says that the buyer is the maker."""

    E: int
    s: str
    t: int
    p: float
    q: float
    m: bool


class Depth(Struct, gc=False):
    """Changed levels, or all of them in the first message of a symbol."""

    e: str
    E: int
    s: str
    b: list[Level] = []
    a: list[Level] = []


class Ticker(Struct, gc=False):
    """The best levels; zero where there is none."""

    E: int
    s: str
    b: LooseNumber = None
    B: LooseNumber = None
    a: LooseNumber = None
    A: LooseNumber = None


class Symbol(Struct, gc=False):
    """Any message, for its symbol."""

    s: str | None = None


class OldTradeMapper(Mapper):
    """`trade` of the old format."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (OldTrade, self.map) if tag == "trade" else None

    def map(self, message: OldTrade, local: str, emit: Emit) -> None:
        """Emit the trade."""
        emit(
            Trade(
                symbol=message.symbol,
                exchange=EXCHANGE,
                id=str(message.event_id),
                price=message.price,
                amount=message.quantity,
                side=SIDES.get(message.side, "unknown"),
                timestamp=ms_text(message.timestamp),
                local_timestamp=local,
            )
        )


class OldBookMapper(Mapper):
    """`l2_updates`, which have no time."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (L2Updates, self.map) if tag == "l2_updates" else None

    def map(self, message: L2Updates, local: str, emit: Emit) -> None:
        """Emit the book, or what changed of it."""
        emit(
            BookChange(
                symbol=message.symbol,
                exchange=EXCHANGE,
                is_snapshot=message.auction_events is not UNSET,
                bids=side_levels(message.changes, "buy"),
                asks=side_levels(message.changes, "sell"),
                timestamp=local,
                local_timestamp=local,
            )
        )


class TradeMapper(Mapper):
    """`trade`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (NewTrade, self.map) if tag == "t" else None

    def map(self, message: NewTrade, local: str, emit: Emit) -> None:
        """Emit the trade, seen from the taker."""
        emit(
            Trade(
                symbol=message.s.upper(),
                exchange=EXCHANGE,
                id=str(message.t),
                price=message.p,
                amount=message.q,
                side="sell" if message.m else "buy",
                timestamp=ns_text(message.E),
                local_timestamp=local,
            )
        )


class BookMapper(Mapper):
    """`depth`; the first message of a symbol on a connection is the whole book."""

    books: ClassVar[TextLevels] = pair_levels(Depth, bids="b", asks="a")

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._begun: set[str] = self.keep(set())

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (self.books, self.map) if tag == "e" else None

    def map(self, message: Depth, local: str, emit: Emit) -> None:
        """Emit the book, or what changed of it."""
        if message.e != "depthUpdate":
            return
        symbol = message.s.upper()
        is_snapshot = symbol not in self._begun
        self._begun.add(symbol)
        emit(
            book_change(
                symbol,
                EXCHANGE,
                message.b,
                message.a,
                ns_text(message.E),
                local,
                is_snapshot=is_snapshot,
            )
        )


class BookTickerMapper(Mapper):
    """`bookTicker`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (Ticker, self.map) if tag == "B" else None

    def map(self, message: Ticker, local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        emit(
            BookTicker(
                symbol=message.s.upper(),
                exchange=EXCHANGE,
                ask_amount=nonzero(message.A),
                ask_price=nonzero(message.a),
                bid_price=nonzero(message.b),
                bid_amount=nonzero(message.B),
                timestamp=ns_text(message.E),
                local_timestamp=local,
            )
        )


def side_levels(changes: Sequence[Change], side: str) -> list[BookLevel]:
    """Return the levels of one side."""
    return [BookLevel(change.price, change.amount) for change in changes if change.side == side]


def filter_symbol(message: Symbol) -> str | None:
    """Return the symbol of a message as filters know it."""
    return None if message.s is None else message.s.upper()


def read_old_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"type": "subscribe", "subscriptions": [{"name": "l2", "symbols": ["BTCUSD"]}]}`."""
    if not isinstance(message, dict) or message.get("type") != "subscribe":
        return None
    return [
        Filter(channel, tuple(subscription["symbols"]))
        for subscription in message["subscriptions"]
        if subscription["name"] == "l2"
        for channel in OLD_CHANNELS
    ]


OLD_FORMAT = WireFormat(
    tag=StartTag(b'{"type":"', Type, lambda message: message.type),
    locate=Filter,
    symbols=one_symbol(OldSymbol, lambda message: message.symbol),
    read_subscribe=read_old_subscribe,
)

FORMAT = WireFormat(
    tag=KeyTag(*CHANNELS),
    locate=lambda key: Filter(CHANNELS.get(key, key)),
    symbols=one_symbol(Symbol, filter_symbol),
    # Clients have always sent the older form, whatever they replayed.
    read_subscribe=read_old_subscribe,
)


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Ask for everything on one socket, by one frame."""
    wanted = optimize_filters(filters)
    params = [
        f"{symbol.lower()}@{entry.channel}{SPEEDS.get(entry.channel, '')}"
        for entry in wanted
        for symbol in symbols_of(EXCHANGE, entry)
    ]
    frame = msgspec.json.encode({"method": "SUBSCRIBE", "params": params, "id": 1}).decode()
    return [FeedConnection(url=access.url(EXCHANGE, URL), filters=wanted, frames=(frame,))]


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"method": "SUBSCRIBE", "params": ["btcusd@depth@100ms", "btcusd@trade"]}`."""
    if not isinstance(message, dict) or message.get("method") != "SUBSCRIBE":
        return None
    streams = [stream.split("@") for stream in message["params"]]
    return [Filter(channel, (symbol.upper(),)) for symbol, channel, *_ in streams]


class Answer(Struct):
    """What tells refusals from other messages."""

    error: Any = None
    result: Any = None
    status: int | None = None


_answer = msgspec.json.Decoder(Answer)


def judge(message: bytes) -> Verdict:
    """Find refusals."""
    answer = _answer.decode(message)
    is_refused = answer.status is not None and answer.status >= BAD_REQUEST
    is_error = answer.error is not None or answer.result == "error" or is_refused
    return Verdict.ERROR if is_error else Verdict.IGNORED


def _version(mapper: type[Mapper], channel: str) -> Version:
    return Version(mapper, channel_filters(channel, convert=str.upper))


VENUES = {
    EXCHANGE: Venue(
        formats=(OLD_FORMAT, FORMAT),
        versions={
            "trade": (_version(OldTradeMapper, "trade"), _version(TradeMapper, "trade")),
            "book_change": (
                _version(OldBookMapper, "l2_updates"),
                _version(BookMapper, "depth"),
            ),
            "book_ticker": (_version(BookTickerMapper, "bookTicker"),),
        },
        # A symbol that is left cannot be subscribed again safely: nothing marks its first message.
        feed=Feed(
            connections=connections,
            read_subscribe=read_subscribe,
            judge=judge,
            books=BookSequence.UNNUMBERED,
            unchecked="the venue does not say that `U` follows the last `u`",
        ),
    )
}
