"""Options in protocol v5: summaries."""

from msgspec import UNSET, Struct

from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, Symbols
from tardis_machine.exchanges.venues.okex.fields import (
    family_of,
    index_of,
    parse_option,
    symbol_filters,
)
from tardis_machine.exchanges.venues.okex.v5 import Push, TickerItem
from tardis_machine.exchanges.venues.okex.v5_derivatives import (
    IndexItem,
    MarkPriceItem,
    OpenInterestItem,
)
from tardis_machine.model.records import OptionalNumber, OptionSummary
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text

NO_TICKER = TickerItem("", 0)


class SummaryItem(Struct, gc=False, rename="camel"):
    """Volatilities and greeks of one option."""

    inst_id: str
    uly: str
    ts: float
    bid_vol: LooseNumber = None
    ask_vol: LooseNumber = None
    mark_vol: LooseNumber = None
    delta: LooseNumber = None
    gamma: LooseNumber = None
    vega: LooseNumber = None
    theta: LooseNumber = None


class OptionSummaryMapper(Mapper):
    """`opt-summary`, completed by what other channels said last."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._index_prices: dict[str, OptionalNumber] = self.keep({})
        self._open_interests: dict[str, OptionalNumber] = self.keep({})
        self._mark_prices: dict[str, OptionalNumber] = self.keep({})
        self._tickers: dict[str, TickerItem] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle summaries and what completes them."""
        handlers: dict[str, Handler] = {
            "opt-summary": (Push[SummaryItem], self.map_summary),
            "index-tickers": (Push[IndexItem], self.map_index),
            "tickers": (Push[TickerItem], self.map_ticker),
            "open-interest": (Push[OpenInterestItem], self.map_open_interest),
            "mark-price": (Push[MarkPriceItem], self.map_mark_price),
        }
        return handlers.get(tag)

    def map_index(self, message: Push[IndexItem], local: str, emit: Emit) -> None:
        """Remember the price of each index."""
        for item in message.data:
            self._index_prices[item.inst_id] = nonzero(item.idx_px)

    def map_ticker(self, message: Push[TickerItem], local: str, emit: Emit) -> None:
        """Remember the quotes of each option."""
        for item in message.data:
            self._tickers[item.inst_id] = item

    def map_open_interest(self, message: Push[OpenInterestItem], local: str, emit: Emit) -> None:
        """Remember the open interest of each option."""
        for item in message.data:
            self._open_interests[item.inst_id] = nonzero(item.oi)

    def map_mark_price(self, message: Push[MarkPriceItem], local: str, emit: Emit) -> None:
        """Remember the mark price of each option."""
        for item in message.data:
            self._mark_prices[item.inst_id] = nonzero(item.mark_px)

    def map_summary(self, message: Push[SummaryItem], local: str, emit: Emit) -> None:
        """Emit one summary per item."""
        for item in message.data:
            symbol = item.inst_id
            option_type, strike_price, expiration_date = parse_option(symbol)
            ticker = self._tickers.get(symbol, NO_TICKER)
            emit(
                OptionSummary(
                    symbol=symbol,
                    exchange=self.exchange,
                    option_type=option_type,
                    strike_price=strike_price,
                    expiration_date=expiration_date,
                    best_bid_price=nonzero(ticker.bid_px),
                    best_bid_amount=nonzero(ticker.bid_sz),
                    best_bid_iv=nonzero(item.bid_vol),
                    best_ask_price=nonzero(ticker.ask_px),
                    best_ask_amount=nonzero(ticker.ask_sz),
                    best_ask_iv=nonzero(item.ask_vol),
                    last_price=nonzero(ticker.last),
                    open_interest=self._open_interests.get(symbol, UNSET),
                    mark_price=self._mark_prices.get(symbol, UNSET),
                    mark_iv=nonzero(item.mark_vol),
                    delta=nonzero(item.delta),
                    gamma=nonzero(item.gamma),
                    vega=nonzero(item.vega),
                    theta=nonzero(item.theta),
                    underlying_price=self._index_prices.get(item.uly, UNSET),
                    underlying_index=item.uly,
                    timestamp=ms_text(item.ts),
                    local_timestamp=local,
                )
            )


def summary_filters(symbols: Symbols) -> list[Filter]:
    """Ask for families of options and their indexes, each once, and for the options."""
    groups = [
        *symbol_filters("opt-summary", convert=family_of)(symbols),
        *symbol_filters("index-tickers", convert=index_of)(symbols),
    ]
    return [
        *(Filter(entry.channel, distinct(entry.symbols)) for entry in groups),
        *symbol_filters("tickers", "open-interest", "mark-price")(symbols),
    ]


def distinct(symbols: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Leave out symbols that came before."""
    return None if symbols is None else tuple(dict.fromkeys(symbols))
