"""dYdX v4: what the indexer of its chain sends, told apart by `type` and `channel`."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

from tardis_machine.exchanges.feeds import Access, Feed, FeedConnection, Verdict, symbols_of
from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.level_texts import TextLevels, has_levels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
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
    one_symbol,
)
from tardis_machine.exchanges.tags import SEPARATOR, TextTag
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.model.records import BookLevel, Liquidation, Side, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import iso_text

EXCHANGE = "dydx-v4"
URL = "wss://indexer.dydx.trade/v4/ws"

TRADES, BOOK, MARKETS = "v4_trades", "v4_orderbook", "v4_markets"

MAX_SYMBOLS = 32
"""Subscriptions of one channel per connection."""

Contents = TypeVar("Contents")


class Message(Struct, Generic[Contents], gc=False):
    """A message about one market."""

    id: str
    contents: Contents | None = None


class TradeItem(Struct, gc=False, rename="camel"):
    """One trade."""

    id: str
    price: float
    size: float
    side: str
    created_at: str | None = None
    type: str | None = None

    @property
    def taker_side(self) -> Side:
        """Return the side of the taker."""
        return "sell" if self.side == "SELL" else "buy"


class TradeContents(Struct, gc=False):
    """Some trades."""

    trades: list[TradeItem]


class SnapshotLevel(Struct, gc=False):
    """One level of a whole book."""

    price: float
    size: float


class SnapshotContents(Struct, gc=False):
    """A whole book."""

    bids: list[SnapshotLevel]
    asks: list[SnapshotLevel]


class UpdateContents(Struct, gc=False):
    """Changed levels; a side may be missing."""

    bids: list[Level] = []
    asks: list[Level] = []


class Market(Struct, gc=False, rename="camel"):
    """What is known, or new, about a market."""

    oracle_price: float | None = None
    open_interest: float | None = None
    next_funding_rate: float | None = None


class MarketContents(Struct, gc=False, rename="camel"):
    """All markets at first, then what changes."""

    markets: dict[str, Market] = {}
    trading: dict[str, Market] = {}
    oracle_prices: dict[str, Market] = {}


class MarketMessage(Struct, gc=False):
    """A `v4_markets` message."""

    contents: MarketContents | None = None


class TradeMapper(Mapper):
    """`v4_trades`; what comes with the subscription are old ones."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle new trades."""
        return (Message[TradeContents], self.map) if tag == f"channel_data,{TRADES}" else None

    def map(self, message: Message[TradeContents], local: str, emit: Emit) -> None:
        """Emit each trade."""
        for item in trades_of(message):
            emit(
                Trade(
                    symbol=message.id,
                    exchange=EXCHANGE,
                    id=item.id,
                    price=item.price,
                    amount=item.size,
                    side=item.taker_side,
                    timestamp=time_of(item, local),
                    local_timestamp=local,
                )
            )


class LiquidationMapper(Mapper):
    """`v4_trades`, those of liquidated positions."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle new trades."""
        return (Message[TradeContents], self.map) if tag == f"channel_data,{TRADES}" else None

    def map(self, message: Message[TradeContents], local: str, emit: Emit) -> None:
        """Emit each liquidation."""
        for item in trades_of(message):
            if item.type == "LIQUIDATED":
                emit(
                    Liquidation(
                        symbol=message.id,
                        exchange=EXCHANGE,
                        id=item.id,
                        price=item.price,
                        amount=item.size,
                        side=item.taker_side,
                        timestamp=time_of(item, local),
                        local_timestamp=local,
                    )
                )


def trades_of(message: Message[TradeContents]) -> Sequence[TradeItem]:
    """Return the trades of a message, which may have none."""
    return () if message.contents is None else message.contents.trades


def time_of(item: TradeItem, local: str) -> str:
    """Return when a trade was made, or arrived."""
    return local if item.created_at is None else iso_text(item.created_at)


class BookMapper(Mapper):
    """`v4_orderbook`, which has no time."""

    is_stateless = True
    updates: ClassVar[TextLevels] = pair_levels(
        Message[UpdateContents], "contents", bids="bids", asks="asks"
    )

    def handler(self, tag: str) -> Handler | None:
        """Handle whole books and updates."""
        if tag == f"channel_data,{BOOK}":
            return self.updates, self.map_update
        is_snapshot = tag == f"subscribed,{BOOK}"
        return (Message[SnapshotContents], self.map_snapshot) if is_snapshot else None

    def map_snapshot(self, message: Message[SnapshotContents], local: str, emit: Emit) -> None:
        """Emit all levels."""
        contents = message.contents
        if contents is not None:
            emit(
                book_change(
                    message.id,
                    EXCHANGE,
                    contents.bids,
                    contents.asks,
                    local,
                    local,
                    is_snapshot=True,
                    read=snapshot_levels,
                )
            )

    def map_update(self, message: Message[UpdateContents], local: str, emit: Emit) -> None:
        """Emit changed levels."""
        contents = message.contents
        if contents is None:
            return
        bids, asks = contents.bids, contents.asks
        if has_levels(bids) or has_levels(asks):
            emit(book_change(message.id, EXCHANGE, bids, asks, local, local, is_snapshot=False))


def snapshot_levels(levels: Sequence[SnapshotLevel]) -> list[BookLevel]:
    """Return the levels of a whole book as records have them."""
    return [BookLevel(level.price, level.size) for level in levels]


class DerivativeTickerMapper(TickerMapper):
    """`v4_markets`, with the price of the last trade."""

    def handler(self, tag: str) -> Handler | None:
        """Handle markets and trades."""
        handlers: dict[str, Handler] = {
            f"channel_data,{TRADES}": (Message[TradeContents], self.map_trades),
            f"subscribed,{MARKETS}": (MarketMessage, self.map_markets),
            f"channel_data,{MARKETS}": (MarketMessage, self.map_markets),
        }
        return handlers.get(tag)

    def map_trades(self, message: Message[TradeContents], local: str, emit: Emit) -> None:
        """Remember the last price until the market has other news."""
        trades = trades_of(message)
        if trades:
            self._tickers.of(message.id).update(last_price=trades[-1].price)

    def map_markets(self, message: MarketMessage, local: str, emit: Emit) -> None:
        """Emit a ticker for each market whose values changed; they have no time."""
        contents = message.contents
        if contents is None:
            return
        for markets in (contents.markets, contents.trading, contents.oracle_prices):
            for symbol, market in markets.items():
                self._tickers.change(
                    symbol,
                    local,
                    local,
                    emit,
                    mark_price=market.oracle_price,
                    open_interest=market.open_interest,
                    funding_rate=market.next_funding_rate,
                )


class Header(Struct, gc=False):
    """What tells refusals and markets."""

    type: str | None = None
    id: str | None = None


_header = msgspec.json.Decoder(Header)

read_symbols = one_symbol(Header, lambda header: header.id)


def ticker_filters(symbols: Symbols) -> list[Filter]:
    """Ask for all markets, which come together, and for the trades of some."""
    return [Filter(MARKETS, ()), *channel_filters(TRADES, convert=str.upper)(symbols)]


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return as many connections as the limit of symbols makes necessary."""
    return [
        FeedConnection(
            url=access.url(EXCHANGE, URL),
            filters=part,
            frames=tuple(frame for entry in part for frame in frames_of(entry)),
        )
        for part in by_symbols(optimize_filters(filters))
    ]


def by_symbols(filters: Sequence[Filter]) -> Iterator[tuple[Filter, ...]]:
    """Spread filters so that no channel has too many symbols; what has none goes first."""
    symbols = sorted({symbol for entry in filters for symbol in entry.symbols or ()})
    for start in range(0, max(len(symbols), 1), MAX_SYMBOLS):
        group = frozenset(symbols[start : start + MAX_SYMBOLS])
        whole = [entry for entry in filters if not entry.symbols and start == 0]
        narrowed = [
            Filter(entry.channel, names)
            for entry in filters
            if (names := tuple(name for name in entry.symbols or () if name in group))
        ]
        yield optimize_filters([*whole, *narrowed])


def frames_of(entry: Filter, action: str = "subscribe") -> list[str]:
    """Return a frame per symbol; markets come all together."""
    message = {"type": action, "channel": entry.channel}
    if entry.channel == MARKETS:
        return [msgspec.json.encode(message).decode()]
    symbols = symbols_of(EXCHANGE, entry)
    return [msgspec.json.encode(message | {"id": symbol}).decode() for symbol in symbols]


def unsubscribe(filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return tuple(frame for entry in filters for frame in frames_of(entry, "unsubscribe"))


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"type": "subscribe", "channel": "v4_trades", "id": "BTC-USD"}`."""
    if message.get("type") != "subscribe":
        return None
    symbol = message.get("id")
    return [Filter(message["channel"], None if symbol is None else (symbol,))]


def judge(message: bytes) -> Verdict:
    """Find refusals."""
    return Verdict.ERROR if _header.decode(message).type == "error" else Verdict.IGNORED


def _always(mapper: type[Mapper], channel: str) -> tuple[Version, ...]:
    return always(mapper, channel, convert=str.upper)


FORMAT = WireFormat(
    tag=TextTag("type", "channel"),
    locate=lambda tag: Filter(tag.partition(SEPARATOR)[2]),
    symbols=read_symbols,
    read_subscribe=read_subscribe,
)

VENUES = {
    EXCHANGE: Venue(
        formats=(FORMAT,),
        versions={
            "trade": _always(TradeMapper, TRADES),
            "book_change": _always(BookMapper, BOOK),
            "derivative_ticker": (Version(DerivativeTickerMapper, ticker_filters),),
            "liquidation": _always(LiquidationMapper, TRADES),
        },
        feed=Feed(
            connections=connections,
            read_subscribe=read_subscribe,
            judge=judge,
            unchecked="`message_id` counts all channels of a connection",
            unsubscribe=unsubscribe,
            max_subscriptions=2 * MAX_SYMBOLS + 1,
            whole_market=frozenset({MARKETS}),
        ),
    )
}
