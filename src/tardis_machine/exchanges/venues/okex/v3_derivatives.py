"""Derivatives in protocol v3: tickers, liquidations, option summaries."""

from msgspec import UNSET, Struct

from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, Symbols
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.exchanges.venues.okex.fields import (
    family_of,
    parse_option,
    positive,
    symbol_filters,
)
from tardis_machine.exchanges.venues.okex.v3 import Table, TickerRow, table_of
from tardis_machine.model.numbers import optional_number
from tardis_machine.model.records import Liquidation, OptionSummary
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import iso_text

CLOSES_LONG = "3"
"""The type of orders that close a long position; `4` closes a short one."""

INDEX_TABLE = "index/ticker"


class LiquidationRow(Struct, gc=False):
    """One liquidated order."""

    instrument_id: str
    price: float
    size: float
    created_at: str
    type: str | float | None = None


class IndexRow(Struct, gc=False):
    """Value of one index."""

    instrument_id: str
    last: LooseNumber = None


class SummaryRow(Struct, gc=False):
    """Quotes and greeks of one option."""

    instrument_id: str
    underlying: str
    timestamp: str
    best_bid: LooseNumber = None
    best_bid_size: LooseNumber = None
    bid_vol: LooseNumber = None
    best_ask: LooseNumber = None
    best_ask_size: LooseNumber = None
    ask_vol: LooseNumber = None
    last: LooseNumber = None
    open_interest: LooseNumber = None
    mark_price: LooseNumber = None
    mark_vol: LooseNumber = None
    delta: LooseNumber = None
    gamma: LooseNumber = None
    vega: LooseNumber = None
    theta: LooseNumber = None


class DerivativeTickerMapper(TickerMapper):
    """Tickers, mark prices and funding rates joined per symbol; no table has the index price."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._tables = {
            table_of(exchange, channel) for channel in ("ticker", "mark_price", "funding_rate")
        }

    def handler(self, tag: str) -> Handler | None:
        """Handle the tables a ticker is made of."""
        return (Table[TickerRow], self.map) if tag in self._tables else None

    def map(self, message: Table[TickerRow], local: str, emit: Emit) -> None:
        """Take whatever a row has."""
        for row in message.data:
            self._tickers.change(
                row.instrument_id,
                iso_text(row.timestamp) if row.timestamp else None,
                local,
                emit,
                funding_rate=row.funding_rate,
                funding_timestamp=iso_text(row.funding_time) if row.funding_time else None,
                predicted_funding_rate=optional_number(row.estimated_rate),
                mark_price=row.mark_price,
                open_interest=positive(row.open_interest),
                last_price=optional_number(row.last),
            )


class LiquidationMapper(Mapper):
    """`<market>/liquidation`, which recorders made from REST answers."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle liquidations of the exchange's market."""
        is_own = tag == table_of(self.exchange, "liquidation")
        return (Table[LiquidationRow], self.map) if is_own else None

    def map(self, message: Table[LiquidationRow], local: str, emit: Emit) -> None:
        """Emit one liquidation per row."""
        for row in message.data:
            emit(
                Liquidation(
                    symbol=row.instrument_id,
                    exchange=self.exchange,
                    price=row.price,
                    amount=row.size,
                    side="sell" if row.type == CLOSES_LONG else "buy",
                    timestamp=iso_text(row.created_at),
                    local_timestamp=local,
                )
            )


class OptionSummaryMapper(Mapper):
    """`option/summary`, with the price of the underlying from `index/ticker`."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._index_prices: dict[str, float] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle summaries and indexes."""
        handlers: dict[str, Handler] = {
            table_of(self.exchange, "summary"): (Table[SummaryRow], self.map_summary),
            INDEX_TABLE: (Table[IndexRow], self.map_index),
        }
        return handlers.get(tag)

    def map_index(self, message: Table[IndexRow], local: str, emit: Emit) -> None:
        """Remember the price of each index until one of its options has news."""
        for row in message.data:
            price = positive(row.last)
            if price is not None:
                self._index_prices[row.instrument_id] = price

    def map_summary(self, message: Table[SummaryRow], local: str, emit: Emit) -> None:
        """Emit one summary per row."""
        for row in message.data:
            option_type, strike_price, expiration_date = parse_option(row.instrument_id)
            emit(
                OptionSummary(
                    symbol=row.instrument_id,
                    exchange=self.exchange,
                    option_type=option_type,
                    strike_price=strike_price,
                    expiration_date=expiration_date,
                    best_bid_price=nonzero(row.best_bid),
                    best_bid_amount=nonzero(row.best_bid_size),
                    best_bid_iv=nonzero(row.bid_vol),
                    best_ask_price=nonzero(row.best_ask),
                    best_ask_amount=nonzero(row.best_ask_size),
                    best_ask_iv=nonzero(row.ask_vol),
                    last_price=nonzero(row.last),
                    open_interest=nonzero(row.open_interest),
                    mark_price=nonzero(row.mark_price),
                    mark_iv=nonzero(row.mark_vol),
                    delta=nonzero(row.delta),
                    gamma=nonzero(row.gamma),
                    vega=nonzero(row.vega),
                    theta=nonzero(row.theta),
                    underlying_price=self._index_prices.get(row.underlying, UNSET),
                    underlying_index=row.underlying,
                    timestamp=iso_text(row.timestamp),
                    local_timestamp=local,
                )
            )


def summary_filters(symbols: Symbols) -> list[Filter]:
    """Ask for options, and for their indexes, which are named like families of options."""
    options = symbol_filters("option/summary")(symbols)
    return [*options, *symbol_filters(INDEX_TABLE, convert=family_of)(symbols)]
