"""Trades, books and best levels of Binance options, whose streams were renamed in December 2025."""

from typing import ClassVar

from msgspec import UNSET, Struct

from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.protocols.combined_streams import channel_of
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.model.records import (
    BookTicker,
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


class BookMessage(Struct, gc=False):
    """A book."""

    data: BookData


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
    books: ClassVar[TextLevels] = pair_levels(BookMessage, "data", bids="b", asks="a")

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (self.books, self.map) if channel_of(tag) == self.channel else None

    def map(self, message: BookMessage, local: str, emit: Emit) -> None:
        """Emit all levels."""
        data = message.data
        time_ms = self.time_of(data)
        if time_ms is None:
            raise ValueError(f"a book of {data.s} has no time.")
        emit(
            book_change(
                data.s, self.exchange, data.b, data.a, ms_text(time_ms), local, is_snapshot=True
            )
        )

    def time_of(self, data: BookData) -> float | None:
        """Return when the book was so."""
        return data.T


class OldBookMapper(OptionBookMapper):
    """`@depth100`."""

    channel = "depth100"

    def time_of(self, data: BookData) -> float | None:
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
