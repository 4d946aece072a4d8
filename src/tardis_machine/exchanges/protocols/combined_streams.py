"""The message shape of Binance and venues built like it: combined streams `{stream, data}`.

`stream` is `<symbol in lower case>@<channel>[@<speed>]`. Messages that a recorder or a live feed
makes from REST answers have the same shape and say `generated`.
"""

from math import isnan, nan
from typing import Any

from msgspec import UNSET, Struct

from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat
from tardis_machine.exchanges.tags import StartTag
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.model.errors import MappingError
from tardis_machine.model.makers import new_trade
from tardis_machine.model.records import BlankTrade, BookTicker, Liquidation
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import auto_text, ms_text

TRADE = "trade"
OFF_BOOK = frozenset({"INSURANCE_FUND", "ADL", "NA"})
"""Kinds of futures prints that were not matched on the book."""


class Stream(Struct, gc=False):
    """The part of a message that tells streams apart."""

    stream: str | None = None


class TradeData(Struct, gc=False):
    """Payload of `@trade`."""

    s: str
    t: int
    p: float
    q: float
    T: float
    m: bool = False
    X: str | None = None


class TradeMessage(Struct, gc=False):
    """A `@trade` message."""

    data: TradeData


class LiveTradeData(TradeData, gc=False):
    """The same on a live stream, where other events may come too."""

    e: str = TRADE
    t: int | None = None  # type: ignore[assignment]
    p: float = nan
    q: float = nan
    T: float = nan


class LiveTradeMessage(Struct, gc=False):
    """A live `@trade` message."""

    data: LiveTradeData


class BookTickerData(Struct, gc=False):
    """Payload of `@bookTicker`; spot has no event time."""

    s: str
    b: float | None = None
    B: float | None = None
    a: float | None = None
    A: float | None = None
    E: float | None = None


class BookTickerMessage(Struct, gc=False):
    """A `@bookTicker` message."""

    data: BookTickerData


class MarkPriceData(Struct, gc=False):
    """Payload of `@markPrice`; dated futures send an empty rate and a zero time."""

    e: str
    s: str
    E: float
    p: float
    i: float | None = None
    r: float | str | None = None
    T: float = 0


class MarkPriceMessage(Struct, gc=False):
    """A `@markPrice` message."""

    data: MarkPriceData


class DayTickerData(Struct, gc=False):
    """Payload of `@ticker`."""

    e: str
    s: str
    E: float
    c: float


class DayTickerMessage(Struct, gc=False):
    """A `@ticker` message."""

    data: DayTickerData


class OpenInterestData(Struct, gc=False, rename="camel"):
    """Payload of the generated `@openInterest`."""

    symbol: str
    open_interest: float


class OpenInterestMessage(Struct, gc=False):
    """An `@openInterest` message."""

    data: OpenInterestData


class ForceOrder(Struct, gc=False):
    """The order inside `@forceOrder`."""

    s: str
    S: str
    p: float
    z: float
    X: str
    T: float


class ForceOrderData(Struct, gc=False):
    """Payload of `@forceOrder`."""

    o: ForceOrder


class ForceOrderMessage(Struct, gc=False):
    """A `@forceOrder` message."""

    data: ForceOrderData


class TradeMapper(Mapper):
    """`@trade`, without off-book prints."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trade streams."""
        if not tag.endswith("@trade"):
            return None
        return (LiveTradeMessage, self.map_live) if self.is_live else (TradeMessage, self.map)

    def map_live(self, message: LiveTradeMessage, local: str, emit: Emit) -> None:
        """Emit the trade, or that something else came."""
        data = message.data
        if data.t is not None and not isnan(data.p + data.q + data.T):
            self.map(message, local, emit)
        elif data.e != TRADE:
            emit(BlankTrade(symbol=data.s, exchange=self.exchange, local_timestamp=local))
        else:
            raise MappingError("id, price, amount or time is missing")

    def map(self, message: TradeMessage | LiveTradeMessage, local: str, emit: Emit) -> None:
        """Emit the trade, seen from the taker."""
        data = message.data
        if data.X in OFF_BOOK:
            return
        emit(
            new_trade(
                data.s,
                self.exchange,
                str(data.t),
                data.p,
                data.q,
                "sell" if data.m else "buy",
                auto_text(data.T),
                local,
            )
        )


class BookTickerMapper(Mapper):
    """`@bookTicker`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle book ticker streams."""
        return (BookTickerMessage, self.map) if tag.endswith("@bookTicker") else None

    def map(self, message: BookTickerMessage, local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        data = message.data
        emit(
            BookTicker(
                symbol=data.s,
                exchange=self.exchange,
                ask_amount=UNSET if data.A is None else data.A,
                ask_price=UNSET if data.a is None else data.a,
                bid_price=UNSET if data.b is None else data.b,
                bid_amount=UNSET if data.B is None else data.B,
                timestamp=local if data.E is None else auto_text(data.E),
                local_timestamp=local,
            )
        )


class DerivativeTickerMapper(TickerMapper):
    """Mark price, last price and open interest joined per symbol."""

    def handler(self, tag: str) -> Handler | None:
        """Handle the streams a ticker is made of."""
        handlers: dict[str, Handler] = {
            "markPrice": (MarkPriceMessage, self.map_mark_price),
            "ticker": (DayTickerMessage, self.map_day_ticker),
            "openInterest": (OpenInterestMessage, self.map_open_interest),
        }
        return handlers.get(channel_of(tag))

    def map_mark_price(self, message: MarkPriceMessage, local: str, emit: Emit) -> None:
        """Take mark and index price, and funding where the contract has it."""
        data = message.data
        if data.e != "markPriceUpdate":
            return
        fields: dict[str, float | str | None] = {"mark_price": data.p, "index_price": data.i}
        if data.r is not None and data.r != "" and data.T != 0:
            fields["funding_rate"] = float(data.r)
            fields["funding_timestamp"] = ms_text(data.T)
        self.update(data.s, auto_text(data.E), local, emit, fields)

    def map_day_ticker(self, message: DayTickerMessage, local: str, emit: Emit) -> None:
        """Take the last price."""
        data = message.data
        if data.e == "24hrTicker":
            self.update(data.s, auto_text(data.E), local, emit, {"last_price": data.c})

    def map_open_interest(self, message: OpenInterestMessage, local: str, emit: Emit) -> None:
        """Take open interest, which never moves the ticker's time."""
        data = message.data
        self.update(data.symbol, None, local, emit, {"open_interest": data.open_interest})

    def update(
        self,
        symbol: str,
        timestamp: str | None,
        local: str,
        emit: Emit,
        fields: dict[str, float | str | None],
    ) -> None:
        """Change what is known about a symbol and emit its ticker if that is news."""
        self._tickers.change(symbol, timestamp, local, emit, **fields)


class LiquidationMapper(Mapper):
    """`@forceOrder`, once the order is filled."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle force order streams."""
        return (ForceOrderMessage, self.map) if tag.endswith("@forceOrder") else None

    def map(self, message: ForceOrderMessage, local: str, emit: Emit) -> None:
        """Emit filled liquidation orders."""
        order = message.data.o
        if order.X != "FILLED":
            return
        emit(
            Liquidation(
                symbol=order.s,
                exchange=self.exchange,
                price=order.p,
                amount=order.z,
                side="sell" if order.S == "SELL" else "buy",
                timestamp=auto_text(order.T),
                local_timestamp=local,
            )
        )


def channel_of(stream: str) -> str:
    """Return the channel of a stream name without its speed."""
    return stream.partition("@")[2].partition("@")[0]


def locate(stream: str) -> Filter:
    """Return channel and symbol; streams of the whole market start with an exclamation mark."""
    symbol, at, _ = stream.partition("@")
    if not symbol.startswith("!"):
        return Filter(channel_of(stream), (symbol,))
    return Filter(symbol[1:] if at else symbol)


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"method": "SUBSCRIBE", "params": ["btcusdt@depth@100ms"]}`; the speed is dropped."""
    if message.get("method") != "SUBSCRIBE":
        return None
    filters = []
    for stream in message["params"]:
        first, last = stream.find("@"), stream.rfind("@")
        channel = stream[first + 1 : last] if first < last else stream[first + 1 :]
        # A name without "@" loses its last character, as clients have always seen it.
        filters.append(Filter(channel, (stream[:first],)))
    return filters


FORMAT = WireFormat(
    tag=StartTag(b'{"stream":"', Stream, lambda message: message.stream),
    locate=locate,
    read_subscribe=read_subscribe,
)
