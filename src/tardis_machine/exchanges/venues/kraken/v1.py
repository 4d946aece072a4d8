"""WebSocket v1: arrays that end with channel and pair, whose numbers are text."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat
from tardis_machine.exchanges.tags import SEPARATOR, EndTag
from tardis_machine.model.records import BookChange, BookLevel, BookTicker, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import sec_us_text


class TradeItem(Struct, gc=False, array_like=True):
    """One trade of a `trade` message."""

    price: float
    volume: float
    time: float
    side: str


class TradeMessage(Struct, gc=False, array_like=True):
    """A `trade` message."""

    channel_id: Any
    items: list[TradeItem]
    channel: str
    pair: str


class Level(Struct, gc=False, array_like=True):
    """One price level; republished ones have a fourth item."""

    price: float
    volume: float
    time: float


class Sides(
    Struct, gc=False, rename={"all_asks": "as", "all_bids": "bs", "asks": "a", "bids": "b"}
):
    """Levels of a `book` message: the whole book, or the changes of one side."""

    all_asks: Sequence[Level] | None = None
    all_bids: Sequence[Level] | None = None
    asks: Sequence[Level] = ()
    bids: Sequence[Level] = ()


class BookMessage(Struct, gc=False, array_like=True):
    """A `book` message: `[id, sides, channel, pair]`, or `[id, asks, bids, channel, pair]`."""

    channel_id: Any
    sides: Sides
    third: Sides | str | None
    fourth: str
    fifth: str | None = None


class Spread(Struct, gc=False, array_like=True):
    """The payload of `spread`; old ones end with the time."""

    bid: LooseNumber
    ask: LooseNumber
    time: float
    bid_volume: LooseNumber = None
    ask_volume: LooseNumber = None


class SpreadMessage(Struct, gc=False, array_like=True):
    """A `spread` message."""

    channel_id: Any
    spread: Spread
    channel: str
    pair: str


class TradeMapper(Mapper):
    """`trade`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if channel_of(tag) == "trade" else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit the trades, which have no ids."""
        for item in message.items:
            emit(
                Trade(
                    symbol=message.pair,
                    exchange=self.exchange,
                    price=item.price,
                    amount=item.volume,
                    side="buy" if item.side == "b" else "sell",
                    timestamp=sec_us_text(item.time),
                    local_timestamp=local,
                )
            )


class BookMapper(Mapper):
    """`book`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle books, whose channel also names their depth."""
        return (BookMessage, self.map) if tag.startswith("book") else None

    def map(self, message: BookMessage, local: str, emit: Emit) -> None:
        """Emit the whole book, or the levels that changed on one side or on both."""
        sides, more = message.sides, message.third
        is_snapshot = sides.all_asks is not None or sides.all_bids is not None
        if is_snapshot:
            symbol, bids, asks = message.fourth, sides.all_bids or (), sides.all_asks or ()
        else:
            symbol, bids, asks = message.fifth or message.fourth, sides.bids, sides.asks
            if isinstance(more, Sides):
                bids, asks = bids or more.bids, asks or more.asks
        bid_levels, bid_time = read_levels(bids)
        ask_levels, ask_time = read_levels(asks)
        emit(
            BookChange(
                symbol=symbol,
                exchange=self.exchange,
                is_snapshot=is_snapshot,
                bids=bid_levels,
                asks=ask_levels,
                timestamp=sec_us_text(max(bid_time, ask_time)) if bids or asks else local,
                local_timestamp=local,
            )
        )


class BookTickerMapper(Mapper):
    """`spread`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle spreads."""
        return (SpreadMessage, self.map) if channel_of(tag) == "spread" else None

    def map(self, message: SpreadMessage, local: str, emit: Emit) -> None:
        """Emit the best bid and ask, unless there was never one."""
        spread = message.spread
        if spread.time == 0:
            return
        emit(
            BookTicker(
                symbol=message.pair,
                exchange=self.exchange,
                ask_amount=nonzero(spread.ask_volume),
                ask_price=nonzero(spread.ask),
                bid_price=nonzero(spread.bid),
                bid_amount=nonzero(spread.bid_volume),
                timestamp=sec_us_text(spread.time),
                local_timestamp=local,
            )
        )


def read_levels(levels: Sequence[Level]) -> tuple[list[BookLevel], float]:
    """Return levels as records have them, and the time of the one that changed last."""
    read = []
    latest = 0.0
    for level in levels:
        read.append(BookLevel(level.price, level.volume))
        if level.time > latest:
            latest = level.time
    return read, latest


def channel_of(tag: str) -> str:
    """Return the channel of a tag, with its depth or interval: `book-1000`."""
    return tag.partition(SEPARATOR)[0]


def locate(tag: str) -> Filter:
    """Return channel, without depth or interval, and pair."""
    channel, _, pair = tag.partition(SEPARATOR)
    return Filter(channel.partition("-")[0], (pair,))


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"event": "subscribe", "pair": ["XBT/USD"], "subscription": {"name": "book"}}`."""
    if message.get("event") != "subscribe":
        return None
    return [Filter(message["subscription"]["name"], tuple(message["pair"]))]


FORMAT = WireFormat(tag=EndTag(), locate=locate, read_subscribe=read_subscribe)
