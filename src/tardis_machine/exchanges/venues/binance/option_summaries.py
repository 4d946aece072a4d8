"""Summaries of Binance options, made of several streams."""

from functools import lru_cache
from typing import ClassVar

from msgspec import UNSET, Struct

from tardis_machine.exchanges.instruments.symbols import expiry_text
from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.protocols.combined_streams import channel_of
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.model.records import OptionalNumber, OptionSummary, OptionType
from tardis_machine.model.time import ms_text

OPTION_TYPES: dict[str, OptionType] = {"C": "call", "P": "put"}

NO_VOLATILITY = -1.0
"""Sent for the volatility of a side without orders."""


class InterestItem(Struct, gc=False):
    """Open interest of one option."""

    s: str
    o: float


class InterestMessage(Struct, gc=False):
    """`@optionOpenInterest` and, before it, `@openInterest`: all options of an expiry."""

    data: list[InterestItem]


class SummaryItem(Struct, gc=False):
    """Quotes and greeks of one option; `c` is its last price, `i` that of the index."""

    s: str
    E: float
    bo: LooseNumber = None
    bq: LooseNumber = None
    b: LooseNumber = None
    ao: LooseNumber = None
    aq: LooseNumber = None
    a: LooseNumber = None
    mp: LooseNumber = None
    vo: LooseNumber = None
    d: LooseNumber = None
    g: LooseNumber = None
    v: LooseNumber = None
    t: LooseNumber = None
    c: LooseNumber = None
    i: LooseNumber = None


class SummaryMessage(Struct, gc=False):
    """A `@ticker` of one option."""

    data: SummaryItem


class MarkPricesMessage(Struct, gc=False):
    """`@optionMarkPrice`: all options of an underlying."""

    data: list[SummaryItem]


class PriceData(Struct, gc=False):
    """A price: that of an index, or the last one of an option."""

    s: str
    p: float | None = None
    c: float | None = None


class PriceMessage(Struct, gc=False):
    """An `@index` or `@optionTicker` message."""

    data: PriceData


class OptionSummaryMapper(Mapper):
    """`@optionMarkPrice`, completed by what other streams said last."""

    interest_channel: ClassVar[str] = "optionOpenInterest"
    price_channel: ClassVar[str] = "optionTicker"

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self.prices: dict[str, float] = self.keep({})
        self._interests: dict[str, float] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle summaries and what completes them."""
        handlers: dict[str, Handler] = {
            self.interest_channel: (InterestMessage, self.map_interest),
            self.price_channel: (PriceMessage, self.map_price),
            "optionMarkPrice": (MarkPricesMessage, self.map_marks),
        }
        return handlers.get(channel_of(tag))

    def map_interest(self, message: InterestMessage, local: str, emit: Emit) -> None:
        """Remember the open interest of options."""
        for item in message.data:
            if item.o >= 0:
                self._interests[item.s] = item.o

    def map_price(self, message: PriceMessage, local: str, emit: Emit) -> None:
        """Remember a last price."""
        self.remember(message.data.s, message.data.c)

    def remember(self, symbol: str, price: float | None) -> None:
        """Remember a price that is one."""
        if price is None:
            raise ValueError(f"{symbol} has no price.")
        if price > 0:
            self.prices[symbol] = price

    def map_marks(self, message: MarkPricesMessage, local: str, emit: Emit) -> None:
        """Emit a summary of each option."""
        for item in message.data:
            last_price = self.prices.get(item.s, UNSET)
            underlying_price = nonzero(item.i)
            emit(self.summary(item, last_price, nonzero(item.vo), underlying_price, local))

    def summary(
        self,
        item: SummaryItem,
        last_price: OptionalNumber,
        mark_iv: OptionalNumber,
        underlying_price: OptionalNumber,
        local: str,
    ) -> OptionSummary:
        """Return what is known about an option."""
        underlying, expiration_date, strike_price, option_type = parse_option(item.s)
        bid, ask = nonzero(item.bo), nonzero(item.ao)
        return OptionSummary(
            symbol=item.s,
            exchange=self.exchange,
            option_type=option_type,
            strike_price=strike_price,
            expiration_date=expiration_date,
            best_bid_price=bid,
            best_bid_amount=nonzero(item.bq),
            best_bid_iv=volatility(item.b) if bid is not UNSET else UNSET,
            best_ask_price=ask,
            best_ask_amount=nonzero(item.aq),
            best_ask_iv=volatility(item.a) if ask is not UNSET else UNSET,
            last_price=last_price,
            open_interest=self._interests.get(item.s, UNSET),
            mark_price=nonzero(item.mp),
            mark_iv=mark_iv,
            delta=nonzero(item.d),
            gamma=nonzero(item.g),
            vega=nonzero(item.v),
            theta=nonzero(item.t),
            underlying_price=underlying_price,
            underlying_index=underlying,
            timestamp=ms_text(item.E),
            local_timestamp=local,
        )


class OldSummaryMapper(OptionSummaryMapper):
    """`@ticker`, completed by `@index` and `@openInterest`."""

    interest_channel = "openInterest"
    price_channel = "index"

    def handler(self, tag: str) -> Handler | None:
        """Handle the older streams."""
        if channel_of(tag) == "ticker":
            return SummaryMessage, self.map_ticker
        return None if channel_of(tag) == "optionMarkPrice" else super().handler(tag)

    def map_price(self, message: PriceMessage, local: str, emit: Emit) -> None:
        """Remember the price of an index."""
        self.remember(message.data.s, message.data.p)

    def map_ticker(self, message: SummaryMessage, local: str, emit: Emit) -> None:
        """Emit the summary of an option."""
        item = message.data
        underlying_price = self.prices.get(parse_option(item.s)[0], UNSET)
        emit(self.summary(item, nonzero(item.c), UNSET, underlying_price, local))


def volatility(value: LooseNumber) -> OptionalNumber:
    """Return a volatility, if it is one."""
    number = nonzero(value)
    return UNSET if number == NO_VOLATILITY else number


@lru_cache(maxsize=8192)
def parse_option(symbol: str) -> tuple[str, str, float, OptionType]:
    """Read underlying, expiration, strike and type from `BTC-231027-34000-C`."""
    _, date, strike, letter = symbol.split("-")
    return underlying_of(symbol), expiry_text(date), float(strike), OPTION_TYPES[letter]


def underlying_of(symbol: str) -> str:
    """Return the underlying of an option: `BTCUSDT`."""
    return f"{coin_of(symbol)}USDT"


def coin_of(symbol: str) -> str:
    """Return the coin of an option: `BTC`."""
    return symbol.partition("-")[0]
