"""Derivatives in protocol v5: tickers and liquidations."""

from collections.abc import Callable

from msgspec import Struct

from tardis_machine.exchanges.numbers import LooseNumber
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, Symbols
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.exchanges.venues.okex.fields import (
    index_of,
    positive,
    symbol_filters,
    usd_index_of,
)
from tardis_machine.exchanges.venues.okex.v5 import InstrumentPush, Push, TickerItem
from tardis_machine.model.numbers import optional_number
from tardis_machine.model.records import Liquidation
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text


class IndexItem(Struct, gc=False, rename="camel"):
    """Value of one index."""

    inst_id: str
    idx_px: LooseNumber = None


class MarkPriceItem(Struct, gc=False, rename="camel"):
    """Mark price of one instrument."""

    inst_id: str
    ts: float
    mark_px: LooseNumber = None


class OpenInterestItem(Struct, gc=False, rename="camel"):
    """Open interest of one instrument, in contracts."""

    inst_id: str
    ts: float
    oi: LooseNumber = None


class FundingItem(Struct, gc=False, rename="camel"):
    """Funding of one instrument; old recordings have no time and no current rate."""

    inst_id: str
    funding_rate: float | None = None
    funding_time: float | None = None
    next_funding_rate: LooseNumber = None
    ts: float | None = None


class LiquidationItem(Struct, gc=False, rename="camel"):
    """One liquidated order, at its bankruptcy price."""

    bk_px: float
    sz: float
    side: str
    ts: float


class LiquidationsItem(Struct, gc=False, rename="camel"):
    """Liquidated orders of one instrument."""

    inst_id: str
    details: list[LiquidationItem]


class DerivativeTickerMapper(TickerMapper):
    """Five channels joined per symbol."""

    index_of: Callable[[str], str] = staticmethod(index_of)

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._index_prices: dict[str, float] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle the channels a ticker is made of."""
        handlers: dict[str, Handler] = {
            "tickers": (Push[TickerItem], self.map_ticker),
            "open-interest": (Push[OpenInterestItem], self.map_open_interest),
            "mark-price": (Push[MarkPriceItem], self.map_mark_price),
            "index-tickers": (Push[IndexItem], self.map_index),
            "funding-rate": (Push[FundingItem], self.map_funding),
        }
        return handlers.get(tag)

    def map_index(self, message: Push[IndexItem], local: str, emit: Emit) -> None:
        """Remember the price of each index until one of its contracts has news."""
        for item in message.data:
            price = positive(item.idx_px)
            if price is not None:
                self._index_prices[item.inst_id] = price

    def map_ticker(self, message: Push[TickerItem], local: str, emit: Emit) -> None:
        """Take the last price."""
        for item in message.data:
            last_price = positive(item.last)
            self.change(item.inst_id, item.ts, local, emit, last_price=last_price)

    def map_open_interest(self, message: Push[OpenInterestItem], local: str, emit: Emit) -> None:
        """Take open interest."""
        for item in message.data:
            open_interest = positive(item.oi)
            self.change(item.inst_id, item.ts, local, emit, open_interest=open_interest)

    def map_mark_price(self, message: Push[MarkPriceItem], local: str, emit: Emit) -> None:
        """Take the mark price."""
        for item in message.data:
            mark_price = positive(item.mark_px)
            self.change(item.inst_id, item.ts, local, emit, mark_price=mark_price)

    def map_funding(self, message: Push[FundingItem], local: str, emit: Emit) -> None:
        """Take time and rate of the next settlement, and the rate predicted for the one after."""
        for item in message.data:
            time_ms = item.funding_time
            self.change(
                item.inst_id,
                item.ts,
                local,
                emit,
                funding_rate=item.funding_rate,
                funding_timestamp=None if time_ms is None else ms_text(time_ms),
                predicted_funding_rate=optional_number(item.next_funding_rate),
            )

    def change(
        self,
        symbol: str,
        time_ms: float | None,
        local: str,
        emit: Emit,
        **fields: float | str | None,
    ) -> None:
        """Add the price of the symbol's index to what is new about it."""
        timestamp = None if time_ms is None else ms_text(time_ms)
        index_price = self._index_prices.get(self.index_of(symbol))
        self._tickers.change(symbol, timestamp, local, emit, index_price=index_price, **fields)


class UsdIndexTickerMapper(DerivativeTickerMapper):
    """Tickers of the time when contracts in USDC had the USD index."""

    index_of = staticmethod(usd_index_of)


class LiquidationMapper(Mapper):
    """`liquidation-orders`, and `liquidations` that recorders made from REST answers."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._has_backlog = True

    def forget(self, symbol: str) -> None:
        """Expect old orders again: they come for all symbols at once."""
        super().forget(symbol)
        self._has_backlog = True

    def handler(self, tag: str) -> Handler | None:
        """Handle both channels."""
        handlers: dict[str, Handler] = {
            "liquidation-orders": (Push[LiquidationsItem], self.map_orders),
            "liquidations": (InstrumentPush[LiquidationItem], self.map_generated),
        }
        return handlers.get(tag)

    def map_orders(self, message: Push[LiquidationsItem], local: str, emit: Emit) -> None:
        """Emit each order, but those of the first message: they are old ones."""
        if self._has_backlog:
            self._has_backlog = False
            return
        for item in message.data:
            for detail in item.details:
                emit(self._liquidation(item.inst_id, detail, local))

    def map_generated(
        self, message: InstrumentPush[LiquidationItem], local: str, emit: Emit
    ) -> None:
        """Emit each order."""
        for item in message.data:
            emit(self._liquidation(message.arg.inst_id, item, local))

    def _liquidation(self, symbol: str, item: LiquidationItem, local: str) -> Liquidation:
        return Liquidation(
            symbol=symbol,
            exchange=self.exchange,
            price=item.bk_px,
            amount=item.sz,
            side="buy" if item.side == "buy" else "sell",
            timestamp=ms_text(item.ts),
            local_timestamp=local,
        )


def ticker_filters(mapper: type[DerivativeTickerMapper]) -> Callable[[Symbols], list[Filter]]:
    """Build a mapper's filter function, which asks for the indexes of contracts too."""
    contracts = symbol_filters("tickers", "open-interest", "mark-price")
    indexes = symbol_filters("index-tickers", convert=mapper.index_of)
    # Some perpetuals are listed among the futures.
    funding = symbol_filters("funding-rate")
    return lambda symbols: [*contracts(symbols), *indexes(symbols), *funding(symbols)]
