"""Binance: combined streams `{stream, data}`, and depth that must be joined to a snapshot.

Spot, US and Jersey share one message format, futures and delivery another.
"""

from collections import deque
from collections.abc import Iterable
from itertools import starmap
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from tardis_machine.exchanges.spec import (
    Address,
    Emit,
    Exchange,
    Handler,
    Mapper,
    Symbols,
    Tag,
    Version,
    channel_filters,
)
from tardis_machine.exchanges.tickers import PendingTickers
from tardis_machine.model.errors import MappingError
from tardis_machine.model.records import BookChange, BookLevel, BookTicker, Liquidation, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import auto_text, ms_text

BUFFERED_DELTAS = 2000
"""Deltas kept per symbol while its snapshot has not arrived."""

OFF_BOOK = frozenset({"INSURANCE_FUND", "ADL", "NA"})
"""Kinds of futures prints that were not matched on the book."""

Level = tuple[float, float]


class Stream(Struct, gc=False):
    """The part of a message that tells streams apart."""

    stream: str | None = None


class TradeData(Struct, gc=False):
    """Payload of `@trade`."""

    s: str
    t: int
    p: float
    q: float
    m: bool
    T: float
    X: str | None = None


class TradeMessage(Struct, gc=False):
    """A `@trade` message."""

    data: TradeData


class DepthData(Struct, gc=False, rename={"last_update_id": "lastUpdateId"}):
    """Payload of `@depth` and of the generated `@depthSnapshot`, told apart by `lastUpdateId`."""

    s: str = ""
    E: float | None = None
    T: float | None = None
    U: int = 0
    u: int = 0
    pu: int | None = None
    b: list[Level] = []
    a: list[Level] = []
    last_update_id: int | None = None
    bids: list[Level] = []
    asks: list[Level] = []


class DepthMessage(Struct, gc=False):
    """A `@depth` or `@depthSnapshot` message."""

    stream: str
    data: DepthData


class BookTickerData(Struct, gc=False):
    """Payload of `@bookTicker`; spot has no event time."""

    s: str
    b: float | None = None
    B: float | None = None
    a: float | None = None
    A: float | None = None
    E: float | None = None


class BookTickerMessage(Struct, gc=False):
    """A `@bookTicker` message."""

    data: BookTickerData


class MarkPriceData(Struct, gc=False):
    """Payload of `@markPrice`; dated futures send an empty rate and a zero time."""

    e: str
    s: str
    E: float
    p: float
    i: float | None = None
    r: str | None = None
    T: float = 0


class MarkPriceMessage(Struct, gc=False):
    """A `@markPrice` message."""

    data: MarkPriceData


class DayTickerData(Struct, gc=False):
    """Payload of `@ticker`."""

    e: str
    s: str
    E: float
    c: float


class DayTickerMessage(Struct, gc=False):
    """A `@ticker` message."""

    data: DayTickerData


class OpenInterestData(Struct, gc=False, rename="camel"):
    """Payload of the generated `@openInterest`."""

    symbol: str
    open_interest: float


class OpenInterestMessage(Struct, gc=False):
    """An `@openInterest` message."""

    data: OpenInterestData


class IndexPriceData(Struct, gc=False):
    """Payload of `@indexPrice`."""

    e: str
    i: str
    p: float


class IndexPriceMessage(Struct, gc=False):
    """An `@indexPrice` message."""

    data: IndexPriceData


class ForceOrder(Struct, gc=False):
    """The order inside `@forceOrder`."""

    s: str
    S: str
    p: float
    z: float
    X: str
    T: float


class ForceOrderData(Struct, gc=False):
    """Payload of `@forceOrder`."""

    o: ForceOrder


class ForceOrderMessage(Struct, gc=False):
    """A `@forceOrder` message."""

    data: ForceOrderData


class TradeMapper(Mapper):
    """`@trade`, without off-book prints."""

    def handler(self, tag: str) -> Handler | None:
        """Handle trade streams."""
        return (TradeMessage, self.map) if tag.endswith("@trade") else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit the trade, seen from the taker."""
        data = message.data
        if data.X in OFF_BOOK:
            return
        emit(
            Trade(
                symbol=data.s,
                exchange=self.exchange,
                id=str(data.t),
                price=data.p,
                amount=data.q,
                side="sell" if data.m else "buy",
                timestamp=auto_text(data.T),
                local_timestamp=local,
            )
        )


class Book:
    """How far the book of one symbol is joined to its snapshot."""

    __slots__ = ("buffer", "has_joined", "snapshot_id")

    def __init__(self) -> None:
        self.buffer: deque[DepthData] | None = deque(maxlen=BUFFERED_DELTAS)
        self.snapshot_id = 0
        self.has_joined = False


class BookMapper(Mapper):
    """`@depth`, held back until the generated snapshot arrives, then merged into it."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._books: dict[str, Book] = {}

    def handler(self, tag: str) -> Handler | None:
        """Handle depth updates and generated snapshots."""
        return (DepthMessage, self.map) if "@depth" in tag else None

    def map(self, message: DepthMessage, local: str, emit: Emit) -> None:
        """Emit a joined snapshot once per symbol, then each update."""
        data = message.data
        if data.last_update_id is not None:
            symbol = message.stream.partition("@")[0].upper()
            self._map_snapshot(symbol, data, local, emit)
            return
        book = self._books.get(data.s)
        if book is None:
            book = self._books[data.s] = Book()
        if book.buffer is not None:
            book.buffer.append(data)
        elif self._follows(book, data):
            emit(
                BookChange(
                    symbol=data.s,
                    exchange=self.exchange,
                    is_snapshot=False,
                    bids=list(starmap(BookLevel, data.b)),
                    asks=list(starmap(BookLevel, data.a)),
                    timestamp=local if data.E is None else auto_text(data.E),
                    local_timestamp=local,
                )
            )

    def _map_snapshot(self, symbol: str, data: DepthData, local: str, emit: Emit) -> None:
        book = self._books.setdefault(symbol, Book())
        if book.buffer is None or data.last_update_id is None:
            return
        buffered, book.buffer = book.buffer, None
        book.snapshot_id = data.last_update_id
        bids, asks = dict(data.bids), dict(data.asks)
        for delta in buffered:
            if self._follows(book, delta):
                merge_levels(bids, delta.b)
                merge_levels(asks, delta.a)
        emit(
            BookChange(
                symbol=symbol,
                exchange=self.exchange,
                is_snapshot=True,
                bids=list(starmap(BookLevel, bids.items())),
                asks=list(starmap(BookLevel, asks.items())),
                timestamp=local if data.T is None else auto_text(data.T),
                local_timestamp=local,
            )
        )

    def _follows(self, book: Book, delta: DepthData) -> bool:
        """Say whether a delta is newer than the snapshot; check once that the first one joins."""
        if self.is_stale(delta, book.snapshot_id):
            return False
        if not book.has_joined:
            # Recordings may miss the overlap and are still worth replaying; a live book is not.
            if self.is_live and not self.joins(delta, book.snapshot_id):
                raise MappingError(
                    f"{self.exchange} {delta.s}: the first depth update ({delta.U} to {delta.u}) "
                    f"does not follow the snapshot (last id {book.snapshot_id})."
                )
            book.has_joined = True
        return True

    def is_stale(self, delta: DepthData, snapshot_id: int) -> bool:
        """Say whether the snapshot already contains a delta."""
        return delta.u <= snapshot_id

    def joins(self, delta: DepthData, snapshot_id: int) -> bool:
        """Say whether a delta directly continues the snapshot."""
        # A new market starts with an empty book whose id is -1.
        return snapshot_id == -1 or delta.U <= snapshot_id + 1 <= delta.u


class FuturesBookMapper(BookMapper):
    """Depth of futures and delivery, whose deltas also name their predecessor."""

    def is_stale(self, delta: DepthData, snapshot_id: int) -> bool:
        """Say whether the snapshot already contains a delta."""
        return delta.u < snapshot_id

    def joins(self, delta: DepthData, snapshot_id: int) -> bool:
        """Say whether a delta overlaps or directly continues the snapshot."""
        return delta.U <= snapshot_id <= delta.u or delta.pu == snapshot_id


def merge_levels(levels: dict[float, float], changes: Iterable[Level]) -> None:
    """Apply changed levels to those of a snapshot, in place."""
    for price, amount in changes:
        if amount == 0:
            levels.pop(price, None)
        else:
            levels[price] = amount


class BookTickerMapper(Mapper):
    """`@bookTicker`."""

    def handler(self, tag: str) -> Handler | None:
        """Handle book ticker streams."""
        return (BookTickerMessage, self.map) if tag.endswith("@bookTicker") else None

    def map(self, message: BookTickerMessage, local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        data = message.data
        emit(
            BookTicker(
                symbol=data.s,
                exchange=self.exchange,
                ask_amount=UNSET if data.A is None else data.A,
                ask_price=UNSET if data.a is None else data.a,
                bid_price=UNSET if data.b is None else data.b,
                bid_amount=UNSET if data.B is None else data.B,
                timestamp=auto_text(data.E) if data.E else local,
                local_timestamp=local,
            )
        )


class DerivativeTickerMapper(Mapper):
    """Mark price, last price, open interest and (delivery) index price joined per symbol."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._tickers = PendingTickers(exchange)
        self._index_prices: dict[str, float] = {}

    def handler(self, tag: str) -> Handler | None:
        """Handle the four streams a ticker is made of."""
        channel = tag.split("@")[1] if "@" in tag else ""
        handlers: dict[str, Handler] = {
            "markPrice": (MarkPriceMessage, self.map_mark_price),
            "ticker": (DayTickerMessage, self.map_day_ticker),
            "openInterest": (OpenInterestMessage, self.map_open_interest),
            "indexPrice": (IndexPriceMessage, self.map_index_price),
        }
        return handlers.get(channel)

    def map_mark_price(self, message: MarkPriceMessage, local: str, emit: Emit) -> None:
        """Take mark and index price, and funding where the contract has it."""
        data = message.data
        if data.e != "markPriceUpdate":
            return
        fields: dict[str, float | str | None] = {"mark_price": data.p, "index_price": data.i}
        if data.r and data.T:
            fields["funding_rate"] = float(data.r)
            fields["funding_timestamp"] = ms_text(data.T)
        self._update(data.s, auto_text(data.E), local, emit, fields)

    def map_day_ticker(self, message: DayTickerMessage, local: str, emit: Emit) -> None:
        """Take the last price."""
        data = message.data
        if data.e == "24hrTicker":
            self._update(data.s, auto_text(data.E), local, emit, {"last_price": data.c})

    def map_open_interest(self, message: OpenInterestMessage, local: str, emit: Emit) -> None:
        """Take open interest, which never moves the ticker's time."""
        data = message.data
        self._update(data.symbol, None, local, emit, {"open_interest": data.open_interest})

    def map_index_price(self, message: IndexPriceMessage, local: str, emit: Emit) -> None:
        """Remember the index price of a pair until one of its contracts has news."""
        if message.data.e == "indexPriceUpdate":
            self._index_prices[message.data.i] = message.data.p

    def _update(
        self,
        symbol: str,
        timestamp: str | None,
        local: str,
        emit: Emit,
        fields: dict[str, float | str | None],
    ) -> None:
        ticker = self._tickers.of(symbol)
        index_price = self._index_prices.get(symbol.partition("_")[0])
        if index_price is not None:
            ticker.update(index_price=index_price)
        ticker.update(**fields)
        if timestamp is not None:
            ticker.advance(timestamp)
        record = ticker.take(local)
        if record is not None:
            emit(record)


class LiquidationMapper(Mapper):
    """`@forceOrder`, once the order is filled."""

    def handler(self, tag: str) -> Handler | None:
        """Handle force order streams."""
        return (ForceOrderMessage, self.map) if tag.endswith("@forceOrder") else None

    def map(self, message: ForceOrderMessage, local: str, emit: Emit) -> None:
        """Emit filled liquidation orders."""
        order = message.data.o
        if order.X != "FILLED":
            return
        emit(
            Liquidation(
                symbol=order.s,
                exchange=self.exchange,
                price=order.p,
                amount=order.z,
                side="sell" if order.S == "SELL" else "buy",
                timestamp=auto_text(order.T),
                local_timestamp=local,
            )
        )


_stream = msgspec.json.Decoder(Stream)


def locate(message: bytes) -> Address | None:
    """Read channel and symbol from the stream name."""
    stream = _stream.decode(message).stream
    if stream is None:
        return None
    symbol, _, rest = stream.partition("@")
    return Address(rest.partition("@")[0], (symbol,))


def map_subscription(message: Any, start_us: int) -> list[Filter] | None:
    """Read `{"method": "SUBSCRIBE", "params": ["btcusdt@depth@100ms"]}`; the speed is dropped."""
    if message.get("method") != "SUBSCRIBE":
        return None
    filters = []
    for stream in message["params"]:
        symbol, _, rest = stream.partition("@")
        filters.append(Filter(rest.rpartition("@")[0] or rest, (symbol,)))
    return filters


def delivery_ticker_filters(symbols: Symbols) -> list[Filter]:
    """Ask for index prices by pair: `btcusd` for `btcusd_perp`."""
    filters = channel_filters("markPrice", "ticker", "openInterest", convert=str.lower)(symbols)
    pairs = channel_filters("indexPrice", convert=lambda name: name.lower().partition("_")[0])
    return [*filters, *pairs(symbols)]


def _versions(mapper: type[Mapper], *channels: str) -> tuple[Version, ...]:
    return (Version(mapper, channel_filters(*channels, convert=str.lower)),)


_TAG = Tag(b'{"stream":"', Stream, lambda message: message.stream)
_SPOT_CHANNELS = (
    *("trade", "aggTrade", "ticker", "depth", "depthSnapshot", "bookTicker"),
    *("recentTrades", "borrowInterest"),
)
_SPOT = {
    "trade": _versions(TradeMapper, "trade"),
    "book_change": _versions(BookMapper, "depth", "depthSnapshot"),
    "book_ticker": _versions(BookTickerMapper, "bookTicker"),
}
_JERSEY = {name: _SPOT[name] for name in ("trade", "book_change")}
_FUTURES = {
    "trade": _SPOT["trade"],
    "book_change": _versions(FuturesBookMapper, "depth", "depthSnapshot"),
    "derivative_ticker": _versions(DerivativeTickerMapper, "markPrice", "ticker", "openInterest"),
    "liquidation": _versions(LiquidationMapper, "forceOrder"),
    "book_ticker": _SPOT["book_ticker"],
}
_DELIVERY = _FUTURES | {
    "derivative_ticker": (Version(DerivativeTickerMapper, delivery_ticker_filters),)
}


def _exchange(
    id_: str, channels: tuple[str, ...], versions: dict[str, tuple[Version, ...]]
) -> Exchange:
    return Exchange(
        id=id_,
        channels=channels,
        versions=versions,
        tag=_TAG,
        locate=locate,
        subscription=map_subscription,
    )


EXCHANGES = (
    _exchange("binance", _SPOT_CHANNELS, _SPOT),
    _exchange("binance-us", _SPOT_CHANNELS, _SPOT),
    _exchange("binance-jersey", _SPOT_CHANNELS, _JERSEY),
    _exchange(
        "binance-futures",
        (
            *("trade", "aggTrade", "ticker", "depth", "markPrice", "premiumIndex"),
            *("indexConstituents", "depthSnapshot", "bookTicker", "forceOrder", "openInterest"),
            *("fundingInfo", "insuranceBalance", "recentTrades", "compositeIndex"),
            *("topLongShortAccountRatio", "topLongShortPositionRatio"),
            *("globalLongShortAccountRatio", "takerlongshortRatio", "!contractInfo", "assetIndex"),
        ),
        _FUTURES,
    ),
    _exchange(
        "binance-delivery",
        (
            *("trade", "aggTrade", "ticker", "depth", "markPrice", "indexPrice"),
            *("depthSnapshot", "bookTicker", "forceOrder", "openInterest", "fundingInfo"),
            *("recentTrades", "topLongShortAccountRatio", "topLongShortPositionRatio"),
            *("globalLongShortAccountRatio", "takerBuySellVol", "!contractInfo"),
        ),
        _DELIVERY,
    ),
)
