"""WebSocket v2: `{action, arg: {channel, instId}, data}`."""

from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.numbers import LooseNumber, optional
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat, one_symbol
from tardis_machine.exchanges.tags import TextTag
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.exchanges.venues.bitget.fields import (
    LooseLevel,
    best_level,
    funding_of,
    locate,
    read_subscribe,
)
from tardis_machine.model.numbers import optional_number
from tardis_machine.model.records import BookTicker, OptionalNumber, Trade
from tardis_machine.model.time import ms_text

Item = TypeVar("Item")


class Argument(Struct, gc=False, rename={"symbol": "instId"}):
    """What was subscribed to."""

    symbol: str


class Push(Struct, Generic[Item], gc=False):
    """A message."""

    arg: Argument
    data: list[Item]


class TradeItem(Struct, gc=False, rename="camel"):
    """One trade."""

    ts: float
    price: float
    size: float
    side: str
    trade_id: str


class BookItem(Struct, gc=False):
    """The best fifteen levels."""

    asks: list[Level]
    bids: list[Level]
    ts: float


class BestItem(Struct, gc=False):
    """The best level."""

    ts: float
    asks: list[LooseLevel] = []
    bids: list[LooseLevel] = []


class TickerItem(Struct, gc=False, rename="camel"):
    """State of one contract."""

    symbol: str
    ts: float
    last_pr: LooseNumber = None
    index_price: LooseNumber = None
    mark_price: LooseNumber = None
    holding_amount: LooseNumber = None
    funding_rate: LooseNumber = None
    next_funding_time: LooseNumber = None


class AnyArgument(Struct, gc=False, rename={"symbol": "instId"}):
    """What was subscribed to, for its symbol."""

    symbol: str | None = None


class AnyMessage(Struct, gc=False):
    """Any message, for its symbol."""

    arg: AnyArgument


class TradeMapper(Mapper):
    """`trade`, without those from before the subscription."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle new trades."""
        return (Push[TradeItem], self.map) if tag == "update,trade" else None

    def map(self, message: Push[TradeItem], local: str, emit: Emit) -> None:
        """Emit one trade per item."""
        symbol = message.arg.symbol
        for item in message.data:
            emit(
                Trade(
                    symbol=symbol,
                    exchange=self.exchange,
                    id=item.trade_id,
                    price=item.price,
                    amount=item.size,
                    side="buy" if item.side == "buy" else "sell",
                    timestamp=ms_text(item.ts),
                    local_timestamp=local,
                )
            )


class BookMapper(Mapper):
    """`books15`, a whole book each time."""

    is_stateless = True
    books: ClassVar[TextLevels] = pair_levels(Push[BookItem], "data", bids="bids", asks="asks")

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (self.books, self.map) if tag == "snapshot,books15" else None

    def map(self, message: Push[BookItem], local: str, emit: Emit) -> None:
        """Emit the book."""
        symbol = message.arg.symbol
        for item in message.data:
            emit(
                book_change(
                    symbol,
                    self.exchange,
                    item.bids,
                    item.asks,
                    ms_text(item.ts),
                    local,
                    is_snapshot=True,
                )
            )


class BookTickerMapper(Mapper):
    """`books1`."""

    is_stateless = True
    number: Callable[[LooseNumber], OptionalNumber] = staticmethod(optional)
    """Reads a price or an amount."""

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (Push[BestItem], self.map) if tag == "snapshot,books1" else None

    def map(self, message: Push[BestItem], local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        number = self.number
        for item in message.data:
            bid, ask = best_level(item.bids), best_level(item.asks)
            emit(
                BookTicker(
                    symbol=message.arg.symbol,
                    exchange=self.exchange,
                    ask_amount=number(ask.amount),
                    ask_price=number(ask.price),
                    bid_price=number(bid.price),
                    bid_amount=number(bid.amount),
                    timestamp=ms_text(item.ts),
                    local_timestamp=local,
                )
            )


class DerivativeTickerMapper(TickerMapper):
    """`ticker`."""

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (Push[TickerItem], self.map) if tag == "snapshot,ticker" else None

    def map(self, message: Push[TickerItem], local: str, emit: Emit) -> None:
        """Emit the ticker if a value changed."""
        for item in message.data:
            funding_rate, paid = funding_of(item.funding_rate, item.next_funding_time)
            self._tickers.change(
                item.symbol,
                ms_text(item.ts),
                local,
                emit,
                last_price=optional_number(item.last_pr),
                open_interest=optional_number(item.holding_amount),
                funding_rate=funding_rate,
                funding_timestamp=paid,
                index_price=optional_number(item.index_price),
                mark_price=optional_number(item.mark_price),
            )


FORMAT = WireFormat(
    tag=TextTag("action", "arg.channel"),
    locate=locate,
    symbols=one_symbol(AnyMessage, lambda message: message.arg.symbol),
    read_subscribe=read_subscribe,
)
