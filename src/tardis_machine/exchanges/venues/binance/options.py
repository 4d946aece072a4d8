"""Trades, books and best levels of Binance options, whose streams were renamed in December 2025."""

from operator import attrgetter
from typing import ClassVar

from msgspec import UNSET, Raw, Struct

from tardis_machine.exchanges.level_texts import NO_LEVELS, TextLevels
from tardis_machine.exchanges.levels import Level, book_levels
from tardis_machine.exchanges.protocols.combined_streams import channel_of
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.model.records import (
    BookChange,
    BookTicker,
    EncodedBookChange,
    OptionalNumber,
    Trade,
)
from tardis_machine.model.time import ms_text


class TradeData(Struct, gc=False):
    """Payload of `@optionTrade`, and of `@trade` before it, which told the side by `S`."""

    s: str
    t: int | str
    p: float
    q: float
    T: float
    m: bool = False
    S: str | int | None = None


class TradeMessage(Struct, gc=False):
    """A trade."""

    data: TradeData


class BookData(Struct, gc=False):
    """Payload of `@depth20` and, before it, `@depth100`: whole books."""

    s: str
    E: float | None = None
    T: float | None = None
    b: list[Level] = []
    a: list[Level] = []


class TextBookData(Struct, gc=False):
    """The same with its levels as JSON of a book change."""

    s: str
    E: float | None = None
    T: float | None = None
    b: Raw = NO_LEVELS
    a: Raw = NO_LEVELS


class BookMessage(Struct, gc=False):
    """A book."""

    data: BookData


class TextBookMessage(Struct, gc=False):
    """A book whose levels are text."""

    data: TextBookData


class QuoteData(Struct, gc=False):
    """Payload of `@bookTicker`."""

    s: str
    T: float
    b: float | None = None
    B: float | None = None
    a: float | None = None
    A: float | None = None


class QuoteMessage(Struct, gc=False):
    """Best levels."""

    data: QuoteData


class OptionTradeMapper(Mapper):
    """`@optionTrade`."""

    is_stateless = True
    channel: ClassVar[str] = "optionTrade"

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if channel_of(tag) == self.channel else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit the trade, seen from the taker."""
        data = message.data
        emit(
            Trade(
                symbol=data.s,
                exchange=self.exchange,
                id=str(data.t),
                price=data.p,
                amount=data.q,
                side="sell" if self.is_sale(data) else "buy",
                timestamp=ms_text(data.T),
                local_timestamp=local,
            )
        )

    def is_sale(self, data: TradeData) -> bool:
        """Say whether the taker sold."""
        return data.m


class OldTradeMapper(OptionTradeMapper):
    """`@trade`."""

    channel = "trade"

    def is_sale(self, data: TradeData) -> bool:
        """Say whether the taker sold."""
        return data.S in ("-1", -1)


class OptionBookMapper(Mapper):
    """`@depth20`."""

    is_stateless = True
    channel: ClassVar[str] = "depth20"
    books: ClassVar[TextLevels] = TextLevels(
        BookMessage, TextBookMessage, attrgetter("data"), bids="b", asks="a"
    )

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (self.books, self.map) if channel_of(tag) == self.channel else None

    def map(self, message: BookMessage | TextBookMessage, local: str, emit: Emit) -> None:
        """Emit all levels."""
        data = message.data
        time_ms = self.time_of(data)
        if time_ms is None:
            raise ValueError(f"a book of {data.s} has no time.")
        if isinstance(data, TextBookData):
            emit(
                EncodedBookChange(
                    symbol=data.s,
                    exchange=self.exchange,
                    is_snapshot=True,
                    bid_text=data.b,
                    ask_text=data.a,
                    timestamp=ms_text(time_ms),
                    local_timestamp=local,
                )
            )
            return
        emit(
            BookChange(
                symbol=data.s,
                exchange=self.exchange,
                is_snapshot=True,
                bids=book_levels(data.b),
                asks=book_levels(data.a),
                timestamp=ms_text(time_ms),
                local_timestamp=local,
            )
        )

    def time_of(self, data: BookData | TextBookData) -> float | None:
        """Return when the book was so."""
        return data.T


class OldBookMapper(OptionBookMapper):
    """`@depth100`."""

    channel = "depth100"

    def time_of(self, data: BookData | TextBookData) -> float | None:
        """Return when the book was sent."""
        return data.T if data.E is None else data.E


class OptionBookTickerMapper(Mapper):
    """`@bookTicker`, which exists since the streams have other names."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (QuoteMessage, self.map) if channel_of(tag) == "bookTicker" else None

    def map(self, message: QuoteMessage, local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        data = message.data
        emit(
            BookTicker(
                symbol=data.s,
                exchange=self.exchange,
                ask_amount=positive(data.A),
                ask_price=positive(data.a),
                bid_price=positive(data.b),
                bid_amount=positive(data.B),
                timestamp=ms_text(data.T),
                local_timestamp=local,
            )
        )


def positive(value: float | None) -> OptionalNumber:
    """Return a number above zero, or that there is none."""
    return value if value is not None and value > 0 else UNSET
