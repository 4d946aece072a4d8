"""Spot in WebSocket v3: `{method, params}`, where the parameters are an array."""

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat
from tardis_machine.exchanges.tags import StartTag
from tardis_machine.model.records import Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text, sec_us_text

EXCHANGE = "gate-io"


class Method(Struct, gc=False):
    """The part of a message that tells channels apart."""

    method: str | None = None


class TradeItem(Struct, gc=False):
    """One trade."""

    id: int
    time: float
    price: float
    amount: float
    type: str


class TradeParams(Struct, gc=False, array_like=True):
    """Trades of one symbol, the newest first."""

    symbol: str
    trades: list[TradeItem] | None = None


class TradeMessage(Struct, gc=False):
    """A `trades.update` message."""

    params: TradeParams


class Sides(Struct, gc=False):
    """Levels of a book, of which a side may be missing."""

    bids: list[Level] | None = None
    asks: list[Level] | None = None
    current: float | None = None


class DepthParams(Struct, gc=False, array_like=True):
    """A book or what changed of it."""

    is_full: bool
    sides: Sides
    symbol: str


class DepthMessage(Struct, gc=False):
    """A `depth.update` message."""

    params: DepthParams


class AnyMessage(Struct, gc=False):
    """Any message, for its symbol: the one text among its parameters."""

    params: list[Any] = []


class TradeMapper(Mapper):
    """`trades`; the first message of a symbol has trades from before the subscription."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._begun: set[str] = self.keep(set())

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if tag == "trades.update" else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit new trades in the order in which they happened."""
        symbol, trades = message.params.symbol, message.params.trades
        if trades is None:
            return
        if symbol not in self._begun:
            self._begun.add(symbol)
            return
        for item in reversed(trades):
            emit(
                Trade(
                    symbol=symbol,
                    exchange=EXCHANGE,
                    id=str(item.id),
                    price=item.price,
                    amount=item.amount,
                    side="sell" if item.type == "sell" else "buy",
                    timestamp=sec_us_text(item.time),
                    local_timestamp=local,
                )
            )


class BookMapper(Mapper):
    """`depth`."""

    is_stateless = True
    books: ClassVar[TextLevels] = pair_levels(
        DepthMessage, "params.sides", bids="bids", asks="asks"
    )

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (self.books, self.map) if tag == "depth.update" else None

    def map(self, message: DepthMessage, local: str, emit: Emit) -> None:
        """Emit the book, or what changed of it; old ones have no time."""
        params, sides = message.params, message.params.sides
        emit(
            book_change(
                params.symbol,
                EXCHANGE,
                sides.bids or (),
                sides.asks or (),
                local if sides.current is None else ms_text(sides.current * 1000),
                local,
                is_snapshot=params.is_full,
            )
        )


_decode_any = msgspec.json.Decoder(AnyMessage).decode


def read_symbols(message: bytes) -> tuple[str, ...]:
    """Return the symbol that a message is about."""
    return tuple(value for value in _decode_any(message).params if isinstance(value, str))


def symbols_in(params: list[Any]) -> tuple[str, ...]:
    """Return the symbols of a subscription: texts, or lists that begin with one."""
    return tuple(value if isinstance(value, str) else value[0] for value in params)


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"method": "trades.subscribe", "params": ["BTC_USDT", ["ETH_USDT", 30]]}`."""
    method = message.get("method") if isinstance(message, dict) else None
    if not isinstance(method, str) or not method.endswith(".subscribe"):
        return None
    return [Filter(method.partition(".")[0], symbols_in(message["params"]))]


FORMAT = WireFormat(
    tag=StartTag(b'{"method":"', Method, lambda message: message.method),
    locate=lambda method: Filter(method.removesuffix(".update")),
    symbols=read_symbols,
    read_subscribe=read_subscribe,
)
