"""Hyperliquid messages, and the mappers that read them."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.tags import StartTag
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.model.records import BookChange, BookLevel, BookTicker, SnapshotLevel, Trade
from tardis_machine.model.time import ms_text

EXCHANGE = "hyperliquid"

BOOK, FAST_BOOK = "l2Book", "fastBook"

NO_LEVEL = SnapshotLevel()


class Header(Struct, gc=False):
    """The part of a message that tells channels apart."""

    channel: str | None = None
    data: Any = None


class TradeItem(Struct, gc=False):
    """One trade; side A is that of asks, which a seller hit."""

    coin: str
    side: str
    px: float
    sz: float
    time: float
    tid: int


class TradeMessage(Struct, gc=False):
    """A `trades` message."""

    data: list[TradeItem]


class Level(Struct, gc=False):
    """One price level."""

    px: float
    sz: float


class BookData(Struct, gc=False):
    """Up to twenty levels of each side, bids first."""

    coin: str
    time: float
    levels: tuple[list[Level], list[Level]]


class BookMessage(Struct, gc=False):
    """An `l2Book` or `fastBook` message."""

    data: BookData


class QuoteData(Struct, gc=False):
    """Best bid and ask; a side may be missing or null."""

    coin: str
    time: float
    bbo: list[Level | None]


class QuoteMessage(Struct, gc=False):
    """A `bbo` message."""

    data: QuoteData


class Context(Struct, gc=False, rename="camel"):
    """State of a perpetual."""

    funding: float
    open_interest: float
    oracle_px: float
    mark_px: float


class ContextData(Struct, gc=False):
    """State of one coin."""

    coin: str
    ctx: Context


class ContextMessage(Struct, gc=False):
    """An `activeAssetCtx` message."""

    data: ContextData


class BookTag(StartTag):
    """The channel; a book that says it is fast has the channel under which recordings have it."""

    def keys(self, lines: Sequence[bytes], start: int) -> list[bytes]:
        """Cut each message where its channel ends."""
        fast, book = self.key_of(FAST_BOOK), self.key_of(BOOK)
        return [
            fast if key == book and b'"fast":true' in line else key
            for key, line in zip(super().keys(lines, start), lines, strict=True)
        ]


def read_channel(header: Header) -> str | None:
    """Return the channel of a message."""
    is_book = header.channel == BOOK and isinstance(header.data, dict)
    return FAST_BOOK if is_book and header.data.get("fast") is True else header.channel


class TradeMapper(Mapper):
    """`trades`; what comes first for a coin are old ones."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._seen: set[str] = self.keep(set())

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if tag == "trades" else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit each trade up to that of a coin that is new."""
        for item in message.data:
            if item.coin not in self._seen:
                self._seen.add(item.coin)
                return
            emit(
                Trade(
                    symbol=item.coin.upper(),
                    exchange=EXCHANGE,
                    id=str(item.tid),
                    price=item.px,
                    amount=item.sz,
                    side="buy" if item.side == "B" else "sell",
                    timestamp=ms_text(item.time),
                    local_timestamp=local,
                )
            )


class BookMapper(Mapper):
    """`l2Book`."""

    is_stateless = True
    channel: ClassVar[str] = BOOK

    def handler(self, tag: str) -> Handler | None:
        """Handle the one kind of books."""
        return (BookMessage, self.map) if tag == self.channel else None

    def map(self, message: BookMessage, local: str, emit: Emit) -> None:
        """Emit all levels."""
        data = message.data
        bids, asks = data.levels
        emit(
            BookChange(
                symbol=data.coin.upper(),
                exchange=EXCHANGE,
                is_snapshot=True,
                bids=[BookLevel(level.px, level.sz) for level in bids],
                asks=[BookLevel(level.px, level.sz) for level in asks],
                timestamp=ms_text(data.time),
                local_timestamp=local,
            )
        )


class FastBookMapper(BookMapper):
    """`fastBook`, which live messages call `l2Book` with a flag."""

    channel = FAST_BOOK


class BookTickerMapper(Mapper):
    """`bbo`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (QuoteMessage, self.map) if tag == "bbo" else None

    def map(self, message: QuoteMessage, local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        data = message.data
        bid, ask = (best_level(data.bbo, side) for side in (0, 1))
        emit(
            BookTicker(
                symbol=data.coin.upper(),
                exchange=EXCHANGE,
                ask_amount=ask.amount,
                ask_price=ask.price,
                bid_price=bid.price,
                bid_amount=bid.amount,
                timestamp=ms_text(data.time),
                local_timestamp=local,
            )
        )


def best_level(levels: Sequence[Level | None], side: int) -> SnapshotLevel:
    """Return the best level of a side, or that there is none."""
    level = levels[side] if side < len(levels) else None
    return NO_LEVEL if level is None else SnapshotLevel(level.px, level.sz)


class DerivativeTickerMapper(TickerMapper):
    """`activeAssetCtx`, which has no time."""

    def handler(self, tag: str) -> Handler | None:
        """Handle the state of perpetuals; that of spot markets has another channel."""
        return (ContextMessage, self.map) if tag == "activeAssetCtx" else None

    def map(self, message: ContextMessage, local: str, emit: Emit) -> None:
        """Emit a ticker if a value changed."""
        context = message.data.ctx
        self._tickers.change(
            message.data.coin.upper(),
            local,
            local,
            emit,
            funding_rate=context.funding,
            mark_price=context.mark_px,
            open_interest=context.open_interest,
            index_price=context.oracle_px,
        )


class CoinItem(Struct, gc=False):
    """The coin of any item."""

    coin: str | None = None


class AnyMessage(Struct, gc=False):
    """Any message, for the coins it is about."""

    data: list[CoinItem] | CoinItem | str | None = None


_any_message = msgspec.json.Decoder(AnyMessage)


def read_symbols(message: bytes) -> tuple[str, ...]:
    """Return the coins of a message."""
    data = _any_message.decode(message).data
    items = data if isinstance(data, list) else [data]
    coins = [item.coin for item in items if isinstance(item, CoinItem) and item.coin]
    return tuple(dict.fromkeys(coins))
