"""Summaries of options, made of REST answers."""

from functools import lru_cache

from msgspec import UNSET, Struct

from tardis_machine.exchanges.instruments.symbols import expiry_text
from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, Symbols, channel_filters
from tardis_machine.exchanges.venues.huobi.topics import channel_of
from tardis_machine.model.records import OptionSummary
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text


class IndexData(Struct, gc=False):
    """Value of an index."""

    symbol: str
    index_price: float


class IndexMessage(Struct, gc=False):
    """An `option_index` message."""

    data: IndexData


class InterestItem(Struct, gc=False):
    """Open interest of one option."""

    contract_code: str
    volume: float


class InterestMessage(Struct, gc=False):
    """An `open_interest` message."""

    data: list[InterestItem]


class SummaryData(Struct, gc=False):
    """Quotes, volatilities and greeks of one option."""

    contract_code: str
    option_right_type: str
    bid_one: LooseNumber = None
    ask_one: LooseNumber = None
    iv_bid_one: LooseNumber = None
    iv_ask_one: LooseNumber = None
    last_price: LooseNumber = None
    mark_price: float | None = None
    iv_mark_price: LooseNumber = None
    delta: LooseNumber = None
    gamma: LooseNumber = None
    vega: LooseNumber = None
    theta: LooseNumber = None


class SummaryMessage(Struct, gc=False):
    """An `option_market_index` message."""

    ts: float
    data: SummaryData


class OptionSummaryMapper(Mapper):
    """`option_market_index`, completed by what other channels said last."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._index_prices: dict[str, float] = self.keep({})
        self._open_interests: dict[str, float] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle summaries and what completes them."""
        handlers: dict[str, Handler] = {
            "option_index": (IndexMessage, self.map_index),
            "open_interest": (InterestMessage, self.map_interest),
            "option_market_index": (SummaryMessage, self.map_summary),
        }
        return handlers.get(channel_of(tag))

    def map_index(self, message: IndexMessage, local: str, emit: Emit) -> None:
        """Remember the price of an index."""
        self._index_prices[message.data.symbol] = message.data.index_price

    def map_interest(self, message: InterestMessage, local: str, emit: Emit) -> None:
        """Remember the open interest of options."""
        for item in message.data:
            self._open_interests[item.contract_code] = item.volume

    def map_summary(self, message: SummaryMessage, local: str, emit: Emit) -> None:
        """Emit the summary."""
        data = message.data
        underlying, strike_price, expiration_date = parse_option(data.contract_code)
        has_mark = data.mark_price is not None and data.mark_price > 0
        emit(
            OptionSummary(
                symbol=data.contract_code,
                exchange=self.exchange,
                option_type="put" if data.option_right_type == "P" else "call",
                strike_price=strike_price,
                expiration_date=expiration_date,
                best_bid_price=nonzero(data.bid_one),
                best_bid_iv=nonzero(data.iv_bid_one),
                best_ask_price=nonzero(data.ask_one),
                best_ask_iv=nonzero(data.iv_ask_one),
                last_price=nonzero(data.last_price),
                open_interest=self._open_interests.get(data.contract_code, UNSET),
                mark_price=nonzero(data.mark_price) if has_mark else UNSET,
                mark_iv=nonzero(data.iv_mark_price),
                delta=nonzero(data.delta),
                gamma=nonzero(data.gamma),
                vega=nonzero(data.vega),
                theta=nonzero(data.theta),
                underlying_price=self._index_prices.get(underlying, UNSET),
                underlying_index=underlying,
                timestamp=ms_text(message.ts),
                local_timestamp=local,
            )
        )


@lru_cache(maxsize=8192)
def parse_option(symbol: str) -> tuple[str, float, str]:
    """Read underlying, strike and expiration from `BTC-USDT-210521-C-42000`."""
    base, quote, date, _, strike = symbol.split("-")
    return f"{base}-{quote}", float(strike), expiry_text(date)


def index_of(symbol: str) -> str:
    """Return the index of an option: `BTC-USDT` of `BTC-USDT-210521-C-42000`."""
    return "-".join(symbol.split("-", 2)[:2])


def summary_filters(symbols: Symbols) -> list[Filter]:
    """Ask for options, and for their indexes."""
    return [
        *channel_filters("open_interest")(symbols),
        *channel_filters("option_index", convert=index_of)(symbols),
        *channel_filters("option_market_index")(symbols),
    ]
