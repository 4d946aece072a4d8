"""Futures: trades and books, and tickers that are made of three channels."""

from msgspec import Struct

from tardis_machine.exchanges.level_texts import Pair
from tardis_machine.exchanges.levels import Level
from tardis_machine.exchanges.numbers import LooseNumber, optional
from tardis_machine.exchanges.protocols.combined_depth import DepthData, DepthMessage
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.exchanges.venues.kucoin import books
from tardis_machine.exchanges.venues.kucoin.books import Push, SnapshotMessage, symbol_of
from tardis_machine.model.numbers import nonzero_number
from tardis_machine.model.records import BookTicker, Trade
from tardis_machine.model.time import ms_text

EXCHANGE = "kucoin-futures"
MS_NS = 1_000_000

EXECUTIONS = "/contractMarket/execution:"


class TradeData(Struct, gc=False, rename="camel"):
    """One trade, with the taker's side and a time in nanoseconds."""

    symbol: str
    side: str
    size: float
    price: float
    trade_id: str
    ts: int


class TradeMessage(Struct, gc=False):
    """A `contractMarket/execution` message."""

    data: TradeData


class UpdateData(Struct, gc=False):
    """One changed level as `price,side,size`."""

    sequence: int
    change: str
    timestamp: float


class TickerData(Struct, gc=False, rename="camel"):
    """The best levels."""

    ts: int
    best_bid_size: float | None = None
    best_bid_price: float | None = None
    best_ask_price: float | None = None
    best_ask_size: float | None = None


class InstrumentData(Struct, gc=False, rename="camel"):
    """Prices or the funding rate of a contract, as the subject tells."""

    mark_price: float | None = None
    index_price: float | None = None
    funding_rate: float | None = None
    timestamp: float | None = None


class InstrumentMessage(Struct, gc=False):
    """A `contract/instrument` message."""

    topic: str
    subject: str
    data: InstrumentData


class DetailsData(Struct, gc=False, rename="camel"):
    """What the REST API tells of a contract."""

    symbol: str
    open_interest: LooseNumber = None


class DetailsMessage(Struct, gc=False):
    """A `contract/details` message, made from a REST answer."""

    data: DetailsData


class TradeMapper(Mapper):
    """`contractMarket/execution`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if tag.startswith(EXECUTIONS) else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit the trade."""
        data = message.data
        emit(
            Trade(
                symbol=data.symbol,
                exchange=EXCHANGE,
                id=data.trade_id,
                price=data.price,
                amount=data.size,
                side="sell" if data.side == "sell" else "buy",
                timestamp=ms_text(data.ts // MS_NS),
                local_timestamp=local,
            )
        )


class BookMapper(books.BookMapper):
    """`contractMarket/level2`, and `contractMarket/level2Snapshot` of the REST API."""

    def handler(self, tag: str) -> Handler | None:
        """Handle updates and snapshots."""
        if tag.startswith("/contractMarket/level2:"):
            return Push[UpdateData], self.map_update
        is_snapshot = tag.startswith("/contractMarket/level2Snapshot:")
        return (SnapshotMessage, self.map_snapshot) if is_snapshot else None

    def map_update(self, message: Push[UpdateData], local: str, emit: Emit) -> None:
        """Emit the update, or keep it for the snapshot."""
        data = message.data
        price, side, size = data.change.split(",")
        levels = [Level(float(price), float(size))]
        update = DepthData(
            E=data.timestamp,
            s=symbol_of(message.topic),
            U=data.sequence,
            u=data.sequence,
            b=levels if side == "buy" else [],
            a=[] if side == "buy" else levels,
        )
        self.map(DepthMessage("", update), local, emit)

    def merge(self, levels: dict[float, float], change: Pair) -> None:
        """Apply a changed level; one without a price only tells a sequence number."""
        if change.price != 0:
            super().merge(levels, change)


class BookTickerMapper(Mapper):
    """`contractMarket/tickerV2`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (Push[TickerData], self.map) if tag.startswith("/contractMarket/tickerV2:") else None

    def map(self, message: Push[TickerData], local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        data = message.data
        emit(
            BookTicker(
                symbol=symbol_of(message.topic),
                exchange=EXCHANGE,
                ask_amount=optional(data.best_ask_size),
                ask_price=optional(data.best_ask_price),
                bid_price=optional(data.best_bid_price),
                bid_amount=optional(data.best_bid_size),
                timestamp=ms_text(data.ts // MS_NS),
                local_timestamp=local,
            )
        )


class DerivativeTickerMapper(TickerMapper):
    """`contract/instrument`, completed by what trades and `contract/details` said last."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._last_prices: dict[str, float] = self.keep({})
        self._open_interests: dict[str, float | None] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle states of contracts and what completes them."""
        handlers: dict[str, Handler] = {
            "/contract/instrument": (InstrumentMessage, self.map_instrument),
            "/contract/details": (DetailsMessage, self.map_details),
            EXECUTIONS[:-1]: (TradeMessage, self.map_trade),
        }
        return handlers.get(tag.partition(":")[0])

    def map_trade(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Remember the last price."""
        self._last_prices[message.data.symbol] = message.data.price

    def map_details(self, message: DetailsMessage, local: str, emit: Emit) -> None:
        """Remember the open interest."""
        data = message.data
        self._open_interests[data.symbol] = nonzero_number(data.open_interest)

    def map_instrument(self, message: InstrumentMessage, local: str, emit: Emit) -> None:
        """Emit the ticker if a value changed; only funding rates move its time."""
        data, symbol = message.data, symbol_of(message.topic)
        is_funding = message.subject == "funding.rate"
        is_price = message.subject == "mark.index.price"
        time_ms = data.timestamp if is_funding else None
        self._tickers.change(
            symbol,
            None if time_ms is None else ms_text(time_ms),
            local,
            emit,
            last_price=self._last_prices.get(symbol),
            open_interest=self._open_interests.get(symbol),
            mark_price=data.mark_price if is_price else None,
            index_price=data.index_price if is_price else None,
            funding_rate=data.funding_rate if is_funding else None,
        )
