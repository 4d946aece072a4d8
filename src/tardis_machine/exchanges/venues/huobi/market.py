"""Trades, books and best levels of every market."""

from functools import partial
from typing import Any, ClassVar

from msgspec import UNSET, Raw, Struct

from tardis_machine.exchanges.chains import NumberedBookMapper
from tardis_machine.exchanges.level_texts import TextLevels, has_levels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.venues.huobi.topics import channel_of, symbol_of
from tardis_machine.model.records import BookTicker, Side, Trade
from tardis_machine.model.time import ms_text

SIDES: dict[str | None, Side] = {"buy": "buy", "sell": "sell"}


class TradeItem(Struct, gc=False, rename="camel"):
    """One trade; its id has more digits than a double, and spot markets have a shorter one."""

    ts: float
    price: float
    amount: float
    id: Raw = Raw(b"")
    trade_id: int | str | None = None
    direction: str | None = None


class TradeTick(Struct, gc=False):
    """Some trades."""

    data: list[TradeItem]


class TradeMessage(Struct, gc=False):
    """A `trade.detail` message."""

    tick: TradeTick


class DepthTick(Struct, gc=False):
    """A book, or changes of one; old ones do not say which."""

    bids: list[Level] | None = None
    asks: list[Level] | None = None
    event: str | None = None
    version: int | None = None


class DepthMessage(Struct, gc=False):
    """A `depth` message; `update` marks old changes, whatever its value is."""

    ts: float
    tick: DepthTick
    update: Any = UNSET


class QuoteLevel(Struct, array_like=True, gc=False):
    """Price and amount of a best level of derivatives."""

    price: LooseNumber = None
    amount: LooseNumber = None


NO_QUOTE = QuoteLevel()


class QuoteTick(Struct, gc=False, rename="camel"):
    """Best levels: numbers in spot markets, arrays in others."""

    bid: LooseNumber | QuoteLevel = None
    ask: LooseNumber | QuoteLevel = None
    bid_size: LooseNumber = None
    ask_size: LooseNumber = None
    quote_time: float | None = None
    ts: float | None = None


class QuoteMessage(Struct, gc=False):
    """A `bbo` message."""

    tick: QuoteTick


class TradeMapper(Mapper):
    """`trade.detail`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        if not tag.endswith(".trade.detail"):
            return None
        return TradeMessage, partial(self.map, symbol_of(tag).upper())

    def map(self, symbol: str, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit each trade."""
        for item in message.tick.data:
            emit(
                Trade(
                    symbol=symbol,
                    exchange=self.exchange,
                    id=trade_id(item),
                    price=item.price,
                    amount=item.amount,
                    side=SIDES.get(item.direction, "unknown"),
                    timestamp=ms_text(item.ts),
                    local_timestamp=local,
                )
            )


def trade_id(item: TradeItem) -> str:
    """Return the id with all its digits; it came as a number or as text."""
    if item.trade_id is not None:
        return str(item.trade_id)
    return bytes(item.id).decode().strip('"')


class DepthMapper(NumberedBookMapper):
    """`depth`: whole books of spot markets at first, updates of all other markets."""

    books: ClassVar[TextLevels] = pair_levels(DepthMessage, "tick", bids="bids", asks="asks")

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        if channel_of(tag) != "depth":
            return None
        return self.books, partial(self.map, symbol_of(tag).upper())

    def map(self, symbol: str, message: DepthMessage, local: str, emit: Emit) -> None:
        """Emit the levels, if there are any."""
        tick = message.tick
        is_snapshot = message.update is UNSET if tick.event is None else tick.event == "snapshot"
        if self.checks_sequence and not self.counts_on(
            symbol, tick.version, is_snapshot=is_snapshot
        ):
            return
        bids, asks = tick.bids or (), tick.asks or ()
        if has_levels(bids) or has_levels(asks):
            timestamp = ms_text(message.ts)
            emit(
                book_change(
                    symbol, self.exchange, bids, asks, timestamp, local, is_snapshot=is_snapshot
                )
            )


class BookTickerMapper(Mapper):
    """`bbo`, in the form of spot markets or in that of others."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        if not tag.endswith(".bbo"):
            return None
        return QuoteMessage, partial(self.map, symbol_of(tag).upper())

    def map(self, symbol: str, message: QuoteMessage, local: str, emit: Emit) -> None:
        """Emit the best bid and ask; a market without orders has the time 0."""
        tick = message.tick
        time_ms = tick.ts if tick.quote_time is None else tick.quote_time
        if tick.quote_time == 0:
            return
        if time_ms is None:
            raise ValueError(f"best levels of {symbol} have no time.")
        bid, ask = quote(tick.bid, tick.bid_size), quote(tick.ask, tick.ask_size)
        emit(
            BookTicker(
                symbol=symbol,
                exchange=self.exchange,
                ask_amount=nonzero(ask.amount),
                ask_price=nonzero(ask.price),
                bid_price=nonzero(bid.price),
                bid_amount=nonzero(bid.amount),
                timestamp=ms_text(time_ms),
                local_timestamp=local,
            )
        )


def quote(price: LooseNumber | QuoteLevel, amount: LooseNumber) -> QuoteLevel:
    """Return a best level from either form."""
    return price if isinstance(price, QuoteLevel) else QuoteLevel(price, amount)
