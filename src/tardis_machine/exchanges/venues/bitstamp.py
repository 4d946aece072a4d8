"""Bitstamp: `{event, channel, data}`; books begin with a REST answer and have no numbers."""

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct

from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    RestCalls,
    Snapshots,
    Verdict,
    symbols_of,
)
from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, Venue, WireFormat, always
from tardis_machine.exchanges.tags import TextTag
from tardis_machine.model.records import AnyBookChange, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text, us_text

EXCHANGE = "bitstamp"
URL = "wss://ws.bitstamp.net"
REST_URL = "https://www.bitstamp.net/api/v2/order_book"

BOOKS = "diff_order_book"
TRADES = "live_trades"

BUFFERED_UPDATES = 100_000
"""Kept per symbol while its snapshot has not arrived; the oldest are part of any snapshot."""

SNAPSHOT_DELAY_SECONDS = 1.0
"""From the first update of a book to the request: the answer must not be older than that update."""


class TradeData(Struct, gc=False):
    """One trade; its type is 0 when the taker bought."""

    id: int
    price: float
    amount: float
    type: int
    microtimestamp: int


class TradeMessage(Struct, gc=False):
    """A message of `live_trades`; that of a subscription has no trade."""

    channel: str
    event: str
    data: Raw


class BookData(Struct, gc=False):
    """Changed levels of a book, or all of them; old snapshots have whole seconds only."""

    timestamp: int = 0
    microtimestamp: int | None = None
    bids: list[Level] = []
    asks: list[Level] = []


class BookMessage(Struct, gc=False):
    """A message of `diff_order_book`."""

    channel: str
    event: str
    data: BookData


_decode_trade = msgspec.json.Decoder(TradeData, strict=False).decode


class TradeMapper(Mapper):
    """`live_trades`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if tag.startswith(TRADES) else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit the trade."""
        if message.event != "trade":
            return
        trade = _decode_trade(message.data)
        emit(
            Trade(
                symbol=symbol_of(message.channel),
                exchange=EXCHANGE,
                id=str(trade.id),
                price=trade.price,
                amount=trade.amount,
                side="buy" if trade.type == 0 else "sell",
                timestamp=us_text(trade.microtimestamp),
                local_timestamp=local,
            )
        )


class BookMapper(Mapper):
    """`diff_order_book`: updates wait for a snapshot, which tells by its time what it includes."""

    books: ClassVar[TextLevels] = pair_levels(BookMessage, "data", bids="bids", asks="asks")

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._snapshots: dict[str, BookData] = self.keep({})
        self._waiting: dict[str, deque[BookData]] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (self.books, self.map) if tag.startswith(BOOKS) else None

    def map(self, message: BookMessage, local: str, emit: Emit) -> None:
        """Emit each snapshot, and the updates that are newer than the last one."""
        symbol, data = symbol_of(message.channel), message.data
        if message.event == "snapshot":
            self._snapshots[symbol] = data
            emit(self._change(symbol, data, local, is_snapshot=True))
            for update in self._waiting.pop(symbol, ()):
                self._update(symbol, update, local, emit)
        elif message.event == "data":
            if symbol in self._snapshots:
                self._update(symbol, data, local, emit)
            else:
                waiting = self._waiting.setdefault(symbol, deque(maxlen=BUFFERED_UPDATES))
                waiting.append(data)

    def _update(self, symbol: str, data: BookData, local: str, emit: Emit) -> None:
        if not is_part_of(self._snapshots[symbol], data):
            emit(self._change(symbol, data, local, is_snapshot=False))

    def _change(
        self, symbol: str, data: BookData, local: str, *, is_snapshot: bool
    ) -> AnyBookChange:
        return book_change(
            symbol,
            EXCHANGE,
            data.bids,
            data.asks,
            time_of(data),
            local,
            is_snapshot=is_snapshot,
        )


def is_part_of(snapshot: BookData, update: BookData) -> bool:
    """Say whether a snapshot includes an update."""
    if snapshot.microtimestamp is None:
        return update.timestamp < snapshot.timestamp
    return (update.microtimestamp or 0) <= snapshot.microtimestamp


def time_of(data: BookData) -> str:
    """Return the time of levels."""
    if data.microtimestamp is None:
        return ms_text(data.timestamp * 1000)
    return us_text(data.microtimestamp)


def symbol_of(channel: str) -> str:
    """Return the symbol of a channel as records have it."""
    return channel.rpartition("_")[2].upper()


def locate(channel: str) -> Filter:
    """Return channel and symbol of `live_trades_btcusd`."""
    for name in (TRADES, BOOKS):
        if channel.startswith(f"{name}_"):
            return Filter(name, (channel.removeprefix(f"{name}_"),))
    name, _, symbol = channel.rpartition("_")
    return Filter(name, (symbol,))


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Ask for everything on one socket; books begin with a REST call each."""
    wanted = optimize_filters(filters)
    has_books = any(entry.channel == BOOKS for entry in wanted)
    return [
        FeedConnection(
            url=access.url(EXCHANGE, URL),
            filters=wanted,
            frames=frames_of(wanted, "bts:subscribe"),
            snapshots=SNAPSHOTS if has_books else None,
        )
    ]


def frames_of(filters: Sequence[Filter], event: str) -> tuple[str, ...]:
    """Return a frame per channel and symbol."""
    return tuple(
        msgspec.json.encode(
            {"event": event, "data": {"channel": f"{entry.channel}_{symbol}"}}
        ).decode()
        for entry in filters
        for symbol in symbols_of(EXCHANGE, entry)
    )


def unsubscribe(filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return frames_of(filters, "bts:unsubscribe")


def wrap_snapshot(symbol: str, body: bytes) -> bytes:
    """Make the message of a book from the answer of the REST API."""
    head = f'{{"event":"snapshot","channel":"{BOOKS}_{symbol}","generated":true,"data":'
    return head.encode() + body + b"}"


SNAPSHOTS = Snapshots(
    channel=BOOKS,
    calls=RestCalls(url=lambda symbol: f"{REST_URL}/{symbol}?group=1", wrap=wrap_snapshot),
    delay_seconds=SNAPSHOT_DELAY_SECONDS,
)


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"event": "bts:subscribe", "data": {"channel": "live_trades_btcusd"}}`."""
    if not isinstance(message, dict) or message.get("event") != "bts:subscribe":
        return None
    return [locate(message["data"]["channel"])]


class Header(Struct):
    """What tells refusals from other messages."""

    channel: str | None = None
    event: str | None = None


_header = msgspec.json.Decoder(Header)


def judge(message: bytes) -> Verdict:
    """Find refusals, which name no channel, and the wish of the venue to end the connection."""
    header = _header.decode(message)
    is_over = header.event == "bts:request_reconnect"
    return Verdict.ERROR if header.channel is None or is_over else Verdict.IGNORED


FORMAT = WireFormat(tag=TextTag("channel"), locate=locate, read_subscribe=read_subscribe)

VENUES = {
    EXCHANGE: Venue(
        formats=(FORMAT,),
        versions={
            "trade": always(TradeMapper, TRADES, convert=str.lower),
            "book_change": always(BookMapper, BOOKS, convert=str.lower),
        },
        feed=Feed(
            connections=connections,
            read_subscribe=read_subscribe,
            judge=judge,
            books=BookSequence.REST_BY_TIME,
            unsubscribe=unsubscribe,
        ),
    )
}
