"""Crypto.com: `{method, code, result: {channel, subscription, instrument_name, data}}`."""

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

from tardis_machine.exchanges.chains import NumberedBookMapper
from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    Verdict,
    split_by_symbol,
    subscription_count,
    symbols_of,
)
from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.numbers import optional
from tardis_machine.exchanges.spec import (
    Emit,
    Handler,
    Mapper,
    Symbols,
    Venue,
    Version,
    WireFormat,
    always,
    channel_filters,
)
from tardis_machine.exchanges.tags import TextTag
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.model.records import BookTicker, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text

EXCHANGE = "crypto-com"
URL = "wss://stream.crypto.com/exchange/v1/market"

INDEX = "index"
CHANNELS = frozenset(
    {"trade", "book", "ticker", "settlement", INDEX, "mark", "funding", "estimatedfunding"}
)
BOOK_DEPTH = ".50"
MAX_SUBSCRIPTIONS = 400

HOUR_MS = 3_600_000
OPTION_PARTS = 3
"""Parts of an option's symbol between dashes."""

UNKNOWN_CHANNEL = 40003

Item = TypeVar("Item")


class Result(Struct, Generic[Item], gc=False):
    """What a message brings."""

    channel: str
    instrument_name: str
    data: list[Item] = []


class Push(Struct, Generic[Item], gc=False):
    """A message."""

    result: Result[Item]


class TradeItem(Struct, gc=False):
    """One trade."""

    d: int | str
    t: float
    p: float
    q: float
    s: str


class Sides(Struct, gc=False):
    """Changed levels."""

    bids: list[Level] = []
    asks: list[Level] = []


class BookItem(Struct, gc=False):
    """All levels of a book, or the changed ones in `update`; old books have no numbers."""

    t: float
    bids: list[Level] = []
    asks: list[Level] = []
    update: Sides | None = None
    u: int | None = None
    pu: int | None = None


class TickerItem(Struct, gc=False):
    """State of one instrument; old ones have no sizes, and spot has no open interest."""

    t: float
    a: float | None = None
    b: float | None = None
    bs: float | None = None
    k: float | None = None
    ks: float | None = None
    oi: float | None = None


class ValueItem(Struct, gc=False):
    """A value of one contract or index."""

    t: float
    v: float | None = None


class TradeMapper(Mapper):
    """`trade`, whose messages have the newest trade first."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (Push[TradeItem], self.map) if tag.startswith("trade.") else None

    def map(self, message: Push[TradeItem], local: str, emit: Emit) -> None:
        """Emit the trades in the order in which they happened."""
        symbol = message.result.instrument_name
        for item in reversed(message.result.data):
            emit(
                Trade(
                    symbol=symbol,
                    exchange=EXCHANGE,
                    id=str(item.d),
                    price=item.p,
                    amount=item.q,
                    side="buy" if item.s == "BUY" else "sell",
                    timestamp=ms_text(item.t),
                    local_timestamp=local,
                )
            )


class BookMapper(NumberedBookMapper):
    """`book`."""

    books: ClassVar[TextLevels] = pair_levels(
        Push[BookItem], "result.data.update", bids="bids", asks="asks"
    )

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (self.books, self.map) if tag.startswith("book.") else None

    def map(self, message: Push[BookItem], local: str, emit: Emit) -> None:
        """Emit the book, or what changed of it."""
        result = message.result
        if not result.data:
            return
        symbol, item = result.instrument_name, result.data[0]
        is_snapshot = result.channel == "book"
        ids = item.pu, item.u
        if self.checks_sequence and not self.follows(symbol, *ids, is_snapshot=is_snapshot):
            return
        sides = item if is_snapshot else item.update or Sides()
        bids, asks, time = sides.bids, sides.asks, ms_text(item.t)
        emit(book_change(symbol, EXCHANGE, bids, asks, time, local, is_snapshot=is_snapshot))


class BookTickerMapper(Mapper):
    """`ticker`, for its best levels."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (Push[TickerItem], self.map) if tag.startswith("ticker.") else None

    def map(self, message: Push[TickerItem], local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        symbol = message.result.instrument_name
        for item in message.result.data:
            emit(
                BookTicker(
                    symbol=symbol,
                    exchange=EXCHANGE,
                    ask_amount=optional(item.ks),
                    ask_price=optional(item.k),
                    bid_price=optional(item.b),
                    bid_amount=optional(item.bs),
                    timestamp=ms_text(item.t),
                    local_timestamp=local,
                )
            )


class DerivativeTickerMapper(TickerMapper):
    """`ticker`, `mark` and `funding`, completed by what `index` said last."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._indexes: dict[str, float | None] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle what contracts have; `estimatedfunding` is asked for, but not read."""
        handlers: dict[str, Handler] = {
            "ticker": (Push[TickerItem], self.map_ticker),
            INDEX: (Push[ValueItem], self.map_index),
            "mark": (Push[ValueItem], self.map_mark),
            "funding": (Push[ValueItem], self.map_funding),
        }
        return handlers.get(tag.partition(".")[0])

    def map_index(self, message: Push[ValueItem], local: str, emit: Emit) -> None:
        """Remember the price of an index."""
        for item in message.result.data[:1]:
            self._indexes[index_symbol(message.result.instrument_name)] = item.v

    def map_ticker(self, message: Push[TickerItem], local: str, emit: Emit) -> None:
        """Take last price and open interest."""
        for item in message.result.data[:1]:
            fields = {"last_price": item.a, "open_interest": item.oi}
            self._change(message.result.instrument_name, item.t, local, emit, **fields)

    def map_mark(self, message: Push[ValueItem], local: str, emit: Emit) -> None:
        """Take the mark price."""
        for item in message.result.data[:1]:
            name = message.result.instrument_name
            self._change(name, item.t, local, emit, mark_price=item.v)

    def map_funding(self, message: Push[ValueItem], local: str, emit: Emit) -> None:
        """Take the funding rate, which is paid at the next full hour."""
        for item in message.result.data[:1]:
            paid = ms_text((int(item.t) // HOUR_MS + 1) * HOUR_MS)
            fields = {"funding_rate": item.v, "funding_timestamp": paid}
            self._change(message.result.instrument_name, item.t, local, emit, **fields)

    def _change(
        self, symbol: str, time_ms: float, local: str, emit: Emit, **fields: float | str | None
    ) -> None:
        """Emit the ticker of a future or perpetual if a value changed."""
        if "_" in symbol or len(symbol.split("-")) == OPTION_PARTS:
            return
        index_price = self._indexes.get(index_symbol(symbol))
        self._tickers.change(
            symbol, ms_text(time_ms), local, emit, index_price=index_price, **fields
        )


def index_of(symbol: str) -> str:
    """Return the pair of a contract or index: `BTCUSD` of `BTCUSD-PERP`."""
    return symbol.partition("-")[0]


def index_symbol(symbol: str) -> str:
    """Return the symbol of a contract's index."""
    return f"{index_of(symbol.upper())}-INDEX"


def ticker_filters(symbols: Symbols) -> list[Filter]:
    """Ask for everything that tickers are made of."""
    contracts = channel_filters("ticker", "mark", "funding", "estimatedfunding", convert=str.upper)(
        symbols
    )
    # Without symbols the list is empty, not missing: it is part of the names of cached recordings.
    index = Filter(INDEX, tuple(map(index_symbol, symbols or ())))
    return [contracts[0], index, *contracts[1:]]


def locate(subscription: str) -> Filter:
    """Return channel and symbol of `book.BTC_USDT.50`."""
    channel, _, symbol = subscription.partition(".")
    name, _, depth = symbol.rpartition(".")
    if channel == "book" and depth.isdecimal():
        symbol = name
    return Filter(channel, (symbol,))


def read_reversed(message: Any) -> list[Filter] | None:
    """Read `BTC_USDT.trade`, which clients of `/ws-replay` have to send."""
    if not isinstance(message, dict) or message.get("method") != "subscribe":
        return None
    parts = [name.split(".") for name in message["params"]["channels"]]
    return [Filter(channel, (symbol,)) for symbol, channel, *_ in parts]


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"method": "subscribe", "params": {"channels": ["trade.BTC_USDT"]}}`."""
    filters = read_reversed(message)
    if filters is None or any(entry.channel in CHANNELS for entry in filters):
        return filters
    return [locate(name) for name in message["params"]["channels"]]


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Ask for some contracts on each socket, and for their indexes on the same."""
    url = access.url(EXCHANGE, URL)
    return [
        FeedConnection(url=url, filters=part, frames=(frame_of(part, "subscribe", access),))
        for part in spread(filters)
    ]


def spread(filters: Sequence[Filter]) -> list[tuple[Filter, ...]]:
    """Spread filters over connections; each has the indexes of its contracts."""
    contracts = [entry for entry in filters if entry.channel != INDEX]
    indexes = {name for entry in filters if entry.channel == INDEX for name in entry.symbols or ()}
    if not contracts or not indexes or subscription_count(filters) <= MAX_SUBSCRIPTIONS:
        return [*split_by_symbol(filters, MAX_SUBSCRIPTIONS)]
    channels = len({entry.channel for entry in contracts})
    parts = []
    for part in split_by_symbol(contracts, MAX_SUBSCRIPTIONS // (channels + 1) * channels):
        symbols = {symbol for entry in part for symbol in symbols_of(EXCHANGE, entry)}
        own = indexes.intersection(map(index_symbol, symbols))
        parts.append(optimize_filters([*part, Filter(INDEX, tuple(own))]) if own else part)
    return parts


def frame_of(filters: Sequence[Filter], method: str, access: Access) -> str:
    """Write the one frame of some filters."""
    names = [
        f"{entry.channel}.{symbol}{BOOK_DEPTH if entry.channel == 'book' else ''}"
        for entry in filters
        for symbol in symbols_of(EXCHANGE, entry)
    ]
    params = {"channels": names, "book_subscription_type": "SNAPSHOT_AND_UPDATE"}
    frame = {"id": 1, "method": method, "nonce": access.now_us // 1000, "params": params}
    return msgspec.json.encode(frame).decode()


def unsubscribe(filters: Sequence[Filter], access: Access) -> tuple[str, ...]:
    """Return the frame that leaves filters."""
    return (frame_of(filters, "unsubscribe", access),)


class Header(Struct):
    """What tells heartbeats and refusals from other messages."""

    id: int | None = None
    method: str | None = None
    code: int | None = None


_header = msgspec.json.Decoder(Header)
HEARTBEAT = "public/heartbeat"


def judge(message: bytes) -> Verdict:
    """Find heartbeats and refusals; an unknown channel or symbol leaves the others alone."""
    header = _header.decode(message)
    if header.method == HEARTBEAT:
        return Verdict.HEARTBEAT
    if header.code == UNKNOWN_CHANNEL:
        return Verdict.REJECTED
    return Verdict.ERROR if header.code else Verdict.IGNORED


def answer(message: bytes) -> str | None:
    """Answer a heartbeat with its id."""
    header = _header.decode(message)
    if header.method != HEARTBEAT:
        return None
    reply = {"id": header.id, "method": "public/respond-heartbeat"}
    return msgspec.json.encode(reply).decode()


FORMAT = WireFormat(tag=TextTag("result.subscription"), locate=locate, read_subscribe=read_reversed)

VENUES = {
    EXCHANGE: Venue(
        formats=(FORMAT,),
        versions={
            "trade": always(TradeMapper, "trade", convert=str.upper),
            "book_change": always(BookMapper, "book", convert=str.upper),
            "derivative_ticker": (Version(DerivativeTickerMapper, ticker_filters),),
            "book_ticker": always(BookTickerMapper, "ticker", convert=str.upper),
        },
        feed=Feed(
            connections=connections,
            read_subscribe=read_subscribe,
            judge=judge,
            books=BookSequence.NUMBERED,
            answer=answer,
            unsubscribe=unsubscribe,
            max_subscriptions=MAX_SUBSCRIPTIONS,
        ),
    )
}
