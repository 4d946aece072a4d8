"""Kraken Futures, once Crypto Facilities: flat messages told apart by `feed`."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Struct

from tardis_machine.exchanges.chains import NumberedBookMapper
from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    Verdict,
    symbols_of,
)
from tardis_machine.exchanges.filters import merge_filters, optimize_filters
from tardis_machine.exchanges.numbers import optional
from tardis_machine.exchanges.spec import (
    Emit,
    Handler,
    Mapper,
    Venue,
    Version,
    WireFormat,
    always,
    one_symbol,
)
from tardis_machine.exchanges.tags import TextTag
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.model.records import BookChange, BookLevel, BookTicker, Liquidation, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text

EXCHANGE = "cryptofacilities"
URL = "wss://futures.kraken.com/ws/v1"

SNAPSHOT = "_snapshot"
"""How the feeds end that come with others, once."""
HEARTBEAT = "heartbeat"


class TradeMessage(Struct, gc=False):
    """A `trade` message; the side is the taker's."""

    product_id: str
    price: float
    qty: float
    side: Literal["buy", "sell"]
    time: float
    uid: str | None = None
    type: str | None = None


class Level(Struct, gc=False):
    """One price level of a snapshot."""

    price: float
    qty: float


class BookSnapshot(Struct, gc=False):
    """A `book_snapshot` message."""

    product_id: str
    bids: list[Level]
    asks: list[Level]
    timestamp: float | None = None
    seq: int | None = None


class BookUpdate(Struct, gc=False):
    """A `book` message: one level."""

    product_id: str
    side: str
    price: float
    qty: float
    timestamp: float | None = None
    seq: int | None = None


class TickerMessage(
    Struct, gc=False, rename={"mark_price": "markPrice", "open_interest": "openInterest"}
):
    """A `ticker` message; absolute rates are in quote currency per contract."""

    product_id: str
    time: float
    bid: float | None = None
    bid_size: float | None = None
    ask: float | None = None
    ask_size: float | None = None
    index: float | None = None
    last: float | None = None
    mark_price: float | None = None
    open_interest: float | None = None
    next_funding_rate_time: float | None = None
    funding_rate: float | None = None
    funding_rate_prediction: float | None = None
    relative_funding_rate: float | None = None
    relative_funding_rate_prediction: float | None = None


class TradeMapper(Mapper):
    """`trade`; its snapshot has old trades."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if tag == "trade" else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit the trade, also of a liquidation."""
        emit(
            Trade(
                symbol=message.product_id,
                exchange=EXCHANGE,
                id=UNSET if message.uid is None else message.uid,
                price=message.price,
                amount=message.qty,
                side=message.side,
                timestamp=ms_text(message.time),
                local_timestamp=local,
            )
        )


class LiquidationMapper(Mapper):
    """`trade`, those of liquidated positions."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if tag == "trade" else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit a liquidation with the side that was sent."""
        if message.type != "liquidation":
            return
        emit(
            Liquidation(
                symbol=message.product_id,
                exchange=EXCHANGE,
                id=UNSET if message.uid is None else message.uid,
                price=message.price,
                amount=message.qty,
                side=message.side,
                timestamp=ms_text(message.time),
                local_timestamp=local,
            )
        )


class BookMapper(NumberedBookMapper):
    """`book_snapshot` and `book`."""

    def handler(self, tag: str) -> Handler | None:
        """Handle snapshots and updates."""
        if tag == "book":
            return BookUpdate, self.map_update
        return (BookSnapshot, self.map_snapshot) if tag == "book_snapshot" else None

    def map_snapshot(self, message: BookSnapshot, local: str, emit: Emit) -> None:
        """Emit all levels."""
        if self.checks_sequence:
            self.counts_on(message.product_id, message.seq, is_snapshot=True)
        emit(
            BookChange(
                symbol=message.product_id,
                exchange=EXCHANGE,
                is_snapshot=True,
                bids=[book_level(level.price, level.qty) for level in message.bids],
                asks=[book_level(level.price, level.qty) for level in message.asks],
                timestamp=time_or_local(message.timestamp, local),
                local_timestamp=local,
            )
        )

    def map_update(self, message: BookUpdate, local: str, emit: Emit) -> None:
        """Emit the level; each update of a live book counts its number up by one."""
        symbol, seq = message.product_id, message.seq
        if self.checks_sequence and not self.counts_on(symbol, seq, is_snapshot=False):
            return
        level = [book_level(message.price, message.qty)]
        is_ask = message.side == "sell"
        emit(
            BookChange(
                symbol=message.product_id,
                exchange=EXCHANGE,
                is_snapshot=False,
                bids=[] if is_ask else level,
                asks=level if is_ask else [],
                timestamp=time_or_local(message.timestamp, local),
                local_timestamp=local,
            )
        )


def book_level(price: float, amount: float) -> BookLevel:
    """Return a level; a negative amount is none."""
    return BookLevel(price, amount if amount > 0 else 0.0)


def time_or_local(time_ms: float | None, local: str) -> str:
    """Return the venue's time, which old books lack."""
    return local if time_ms is None else ms_text(time_ms)


class BookTickerMapper(Mapper):
    """`ticker`, for its best levels."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (TickerMessage, self.map) if tag == "ticker" else None

    def map(self, message: TickerMessage, local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        emit(
            BookTicker(
                symbol=message.product_id,
                exchange=EXCHANGE,
                ask_amount=optional(message.ask_size),
                ask_price=optional(message.ask),
                bid_price=optional(message.bid),
                bid_amount=optional(message.bid_size),
                timestamp=ms_text(message.time),
                local_timestamp=local,
            )
        )


class DerivativeTickerMapper(TickerMapper):
    """`ticker`, with rates that are fractions."""

    has_relative_rates: ClassVar[bool] = True

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (TickerMessage, self.map) if tag == "ticker" else None

    def map(self, message: TickerMessage, local: str, emit: Emit) -> None:
        """Emit a ticker if a value changed; a market that has not opened has no next funding."""
        time_ms = message.next_funding_rate_time
        if time_ms == 0:
            return
        rate, prediction = message.funding_rate, message.funding_rate_prediction
        if self.has_relative_rates:
            rate, prediction = (
                message.relative_funding_rate,
                message.relative_funding_rate_prediction,
            )
        self._tickers.change(
            message.product_id,
            ms_text(message.time),
            local,
            emit,
            funding_rate=rate,
            predicted_funding_rate=prediction,
            funding_timestamp=None if time_ms is None else ms_text(time_ms),
            index_price=message.index,
            mark_price=message.mark_price,
            open_interest=message.open_interest,
            last_price=message.last,
        )


class AbsoluteRatesMapper(DerivativeTickerMapper):
    """Tickers of the time when rates were amounts."""

    has_relative_rates = False


class Header(Struct, gc=False):
    """What tells heartbeats, refusals and symbols."""

    event: str | None = None
    feed: str | None = None
    product_id: str | None = None


_header = msgspec.json.Decoder(Header)

read_symbols = one_symbol(Header, lambda header: header.product_id)


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Ask for everything on one socket."""
    wanted = optimize_filters(filters)
    return [FeedConnection(url=access.url(EXCHANGE, URL), filters=wanted, frames=frames_of(wanted))]


def frames_of(filters: Sequence[Filter], action: str = "subscribe") -> tuple[str, ...]:
    """Return a frame per feed; snapshots come with the feed they belong to."""
    feeds = merge_filters(
        Filter(entry.channel.removesuffix(SNAPSHOT), entry.symbols) for entry in filters
    )
    return tuple(
        msgspec.json.encode({"event": action, "feed": entry.channel} | products(entry)).decode()
        for entry in feeds
    )


def products(entry: Filter) -> dict[str, Any]:
    """Return the part of a frame that names products, which heartbeats have not."""
    if entry.channel == HEARTBEAT:
        return {}
    return {"product_ids": symbols_of(EXCHANGE, entry)}


def unsubscribe(filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return frames_of(filters, "unsubscribe")


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"event": "subscribe", "feed": "book", "product_ids": ["PI_XBTUSD"]}`."""
    if message.get("event") != "subscribe":
        return None
    products = message.get("product_ids")
    return [Filter(message["feed"], None if products is None else tuple(products))]


def read_live_subscribe(message: Any) -> list[Filter] | None:
    """Read the same as the venue does: with the snapshot that comes first."""
    filters = read_subscribe(message)
    if filters is None:
        return None
    [entry] = filters
    if entry.channel in ("book", "trade"):
        filters.append(Filter(entry.channel + SNAPSHOT, entry.symbols))
    return filters


def judge(message: bytes) -> Verdict:
    """Find heartbeats and refusals."""
    header = _header.decode(message)
    if header.event is None and header.feed == HEARTBEAT:
        return Verdict.HEARTBEAT
    return Verdict.ERROR if header.event == "error" else Verdict.IGNORED


def _always(mapper: type[Mapper], *channels: str) -> tuple[Version, ...]:
    return always(mapper, *channels, convert=str.upper)


FORMAT = WireFormat(
    # Events name the feed they are about.
    tag=TextTag("feed", unless="event"),
    locate=Filter,
    symbols=read_symbols,
    read_subscribe=read_subscribe,
)

VENUES = {
    EXCHANGE: Venue(
        formats=(FORMAT,),
        versions={
            "trade": _always(TradeMapper, "trade"),
            "book_change": _always(BookMapper, "book", "book_snapshot"),
            "derivative_ticker": (
                *_always(AbsoluteRatesMapper, "ticker"),
                *_always(DerivativeTickerMapper, "ticker"),
            ),
            "liquidation": _always(LiquidationMapper, "trade"),
            "book_ticker": _always(BookTickerMapper, "ticker"),
        },
        feed=Feed(
            connections=connections,
            read_subscribe=read_live_subscribe,
            judge=judge,
            books=BookSequence.NUMBERED,
            unsubscribe=unsubscribe,
            whole_market=frozenset({HEARTBEAT}),
        ),
    )
}
