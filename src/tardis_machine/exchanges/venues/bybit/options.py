"""Options: the messages of v5 that are different there."""

from functools import lru_cache

import msgspec
from msgspec import UNSET, Struct

from tardis_machine.exchanges.instruments.symbols import expiry_us
from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat
from tardis_machine.exchanges.venues.bybit import topics, v5
from tardis_machine.model.records import OptionSummary, OptionType
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text

TRADES = "publicTrade"
"""Its topics name a currency, its items the contracts."""


class SummaryData(Struct, gc=False, rename="camel"):
    """State of one option; zero where there is no value."""

    symbol: str
    bid_price: LooseNumber = None
    bid_size: LooseNumber = None
    bid_iv: LooseNumber = None
    ask_price: LooseNumber = None
    ask_size: LooseNumber = None
    ask_iv: LooseNumber = None
    last_price: LooseNumber = None
    mark_price: LooseNumber = None
    mark_price_iv: LooseNumber = None
    underlying_price: LooseNumber = None
    open_interest: LooseNumber = None
    delta: LooseNumber = None
    gamma: LooseNumber = None
    vega: LooseNumber = None
    theta: LooseNumber = None


class TradeSymbol(Struct, gc=False):
    """Any trade, for its contract."""

    s: str


class BookMapper(v5.BookMapper):
    """`orderbook.25`."""

    topics = "orderbook.25."


class OptionSummaryMapper(Mapper):
    """`tickers`, which are always complete."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (v5.TimedPush[SummaryData], self.map) if tag.startswith("tickers.") else None

    def map(self, message: v5.TimedPush[SummaryData], local: str, emit: Emit) -> None:
        """Emit the summary."""
        data = message.data
        option_type, strike_price, expiration_date = parse_option(data.symbol)
        emit(
            OptionSummary(
                symbol=data.symbol,
                exchange=self.exchange,
                option_type=option_type,
                strike_price=strike_price,
                expiration_date=expiration_date,
                best_bid_price=nonzero(data.bid_price),
                best_bid_amount=nonzero(data.bid_size),
                best_bid_iv=nonzero(data.bid_iv),
                best_ask_price=nonzero(data.ask_price),
                best_ask_amount=nonzero(data.ask_size),
                best_ask_iv=nonzero(data.ask_iv),
                last_price=nonzero(data.last_price),
                open_interest=nonzero(data.open_interest),
                mark_price=nonzero(data.mark_price),
                mark_iv=nonzero(data.mark_price_iv),
                delta=nonzero(data.delta),
                gamma=nonzero(data.gamma),
                vega=nonzero(data.vega),
                theta=nonzero(data.theta),
                rho=UNSET,
                underlying_price=nonzero(data.underlying_price),
                underlying_index="",
                timestamp=ms_text(message.ts),
                local_timestamp=local,
            )
        )


@lru_cache(maxsize=8192)
def parse_option(symbol: str) -> tuple[OptionType, float, str]:
    """Read type, strike and expiration from `BTC-1AUG25-112000-P-USDT`."""
    _, date, strike, letter, *_ = symbol.split("-")
    expires_us = expiry_us(date)
    if expires_us is None:
        raise ValueError(f"the expiry of option {symbol!r} is no day such as 1AUG25")
    return "put" if letter == "P" else "call", float(strike), ms_text(expires_us // 1000)


_decode_trades = msgspec.json.Decoder(v5.Push[TradeSymbol]).decode


def locate(topic: str) -> Filter:
    """Return channel and symbol; trades do not name theirs in the topic."""
    located = topics.locate(topic)
    return Filter(TRADES) if located.channel == TRADES else located


def read_symbols(message: bytes) -> tuple[str, ...]:
    """Return the contracts that trades are of."""
    return tuple({item.s for item in _decode_trades(message).data})


FORMAT = WireFormat(
    tag=topics.TOPIC_TAG,
    locate=locate,
    symbols=read_symbols,
    read_subscribe=topics.read_topics,
)
