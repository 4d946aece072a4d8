"""Tickers and liquidations of futures and swaps."""

from functools import partial

from msgspec import Struct

from tardis_machine.exchanges.spec import Emit, Handler, Mapper, Symbols, channel_filters
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.exchanges.venues.huobi.market import SIDES
from tardis_machine.exchanges.venues.huobi.topics import channel_of, symbol_of
from tardis_machine.model.records import Liquidation
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import ms_text

CONTRACT_TYPES = {
    "CW": "this_week",
    "NW": "next_week",
    "CQ": "quarter",
    "NQ": "next_quarter",
}
"""How symbols of dated futures end -> what the venue calls such contracts elsewhere."""

ALIASES = {name: alias for alias, name in CONTRACT_TYPES.items()}


class BasisTick(Struct, gc=False):
    """Index and contract price."""

    index_price: float
    contract_price: float


class BasisMessage(Struct, gc=False):
    """A `basis` message."""

    ts: float
    tick: BasisTick


class OpenInterestItem(Struct, gc=False):
    """Open interest in contracts."""

    volume: float


class OpenInterestMessage(Struct, gc=False):
    """A generated `open_interest` message."""

    ts: float
    data: list[OpenInterestItem]


class FundingItem(Struct, gc=False):
    """Rate of the next settlement, and the estimate for the one after."""

    contract_code: str
    funding_rate: float
    settlement_time: float
    estimated_rate: float | None = None


class FundingMessage(Struct, gc=False):
    """A `funding_rate` notification."""

    ts: float
    data: list[FundingItem]


class LiquidationItem(Struct, gc=False):
    """One liquidated order."""

    contract_code: str
    price: float
    volume: float
    created_at: float
    direction: str | None = None


class LiquidationMessage(Struct, gc=False):
    """A `liquidation_orders` notification."""

    data: list[LiquidationItem]


class ContractItem(Struct, gc=False):
    """What a contract is: `BTC261127` is `this_week` of `BTC` until it expires."""

    symbol: str
    contract_code: str
    contract_type: str | None = None


class ContractMessage(Struct, gc=False):
    """A `contract_info` notification."""

    data: list[ContractItem]


class DerivativeTickerMapper(TickerMapper):
    """`basis`, `open_interest` and `funding_rate` joined per symbol."""

    def handler(self, tag: str) -> Handler | None:
        """Handle the channels a ticker is made of."""
        handlers: dict[str, Handler] = {
            "basis": (BasisMessage, partial(self.map_basis, symbol_of(tag))),
            "open_interest": (OpenInterestMessage, partial(self.map_interest, symbol_of(tag))),
            "funding_rate": (FundingMessage, self.map_funding),
        }
        return handlers.get(channel_of(tag))

    def map_basis(self, symbol: str, message: BasisMessage, local: str, emit: Emit) -> None:
        """Take index and last price."""
        self._tickers.change(
            symbol,
            ms_text(message.ts),
            local,
            emit,
            index_price=message.tick.index_price,
            last_price=message.tick.contract_price,
        )

    def map_interest(
        self, symbol: str, message: OpenInterestMessage, local: str, emit: Emit
    ) -> None:
        """Take open interest."""
        volume = message.data[0].volume
        self._tickers.change(symbol, ms_text(message.ts), local, emit, open_interest=volume)

    def map_funding(self, message: FundingMessage, local: str, emit: Emit) -> None:
        """Take time and rate of the next settlement, and the estimate."""
        item = message.data[0]
        self._tickers.change(
            item.contract_code,
            ms_text(message.ts),
            local,
            emit,
            funding_rate=item.funding_rate,
            predicted_funding_rate=item.estimated_rate,
            funding_timestamp=ms_text(item.settlement_time),
        )


class LiquidationMapper(Mapper):
    """`liquidation_orders` of swaps, which name their symbol."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle liquidations."""
        is_liquidation = channel_of(tag) == "liquidation_orders"
        return (LiquidationMessage, self.map) if is_liquidation else None

    def map(self, message: LiquidationMessage, local: str, emit: Emit) -> None:
        """Emit each order whose symbol is known."""
        for item in message.data:
            symbol = self.symbol_of(item.contract_code)
            if symbol is not None:
                emit(
                    Liquidation(
                        symbol=symbol,
                        exchange=self.exchange,
                        price=item.price,
                        amount=item.volume,
                        side=SIDES.get(item.direction, "unknown"),
                        timestamp=ms_text(item.created_at),
                        local_timestamp=local,
                    )
                )

    def symbol_of(self, contract_code: str) -> str | None:
        """Return the symbol of a contract."""
        return contract_code


class FuturesLiquidationMapper(LiquidationMapper):
    """`liquidation_orders` of dated futures; `contract_info` tells their symbols."""

    is_stateless = False

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._symbols: dict[str, str] = {}
        """By contract code."""

    def forget(self, symbol: str) -> None:
        """Drop the contracts of a coin, which is what they are subscribed by."""
        super().forget(symbol)
        coin = f"{symbol.upper().partition('_')[0]}_"
        for code in [code for code, known in self._symbols.items() if known.startswith(coin)]:
            del self._symbols[code]

    def handler(self, tag: str) -> Handler | None:
        """Handle what is known about contracts too."""
        if channel_of(tag) == "contract_info":
            return ContractMessage, self.map_contracts
        return super().handler(tag)

    def map_contracts(self, message: ContractMessage, local: str, emit: Emit) -> None:
        """Remember the symbol of each contract."""
        for item in message.data:
            alias = ALIASES.get(item.contract_type or "")
            if alias is not None:
                self._symbols[item.contract_code] = f"{item.symbol}_{alias}"

    def symbol_of(self, contract_code: str) -> str | None:
        """Return the symbol of a contract, once it is known."""
        return self._symbols.get(contract_code)


def futures_liquidation_filters(symbols: Symbols) -> list[Filter]:
    """Ask for liquidations and contracts by coin: `BTC` for `BTC_CW`, once."""
    return channel_filters(
        "liquidation_orders",
        "contract_info",
        convert=lambda symbol: symbol.upper().partition("_")[0],
    )(symbols)
