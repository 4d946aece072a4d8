"""BitMEX tables, and the mappers that read them."""

import msgspec
from msgspec import UNSET, Struct

from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.model.errors import MappingError
from tardis_machine.model.makers import new_book_change, new_level, new_trade
from tardis_machine.model.records import (
    BookChange,
    BookLevel,
    BookTicker,
    Liquidation,
    Side,
)
from tardis_machine.model.time import iso_text

EXCHANGE = "bitmex"


class Table(Struct, gc=False):
    """The part of a message that tells tables apart."""

    table: str | None = None


class TradeItem(Struct, gc=False, rename={"match_id": "trdMatchID"}):
    """One row of `trade`."""

    symbol: str
    price: float
    size: float
    timestamp: str
    side: str | None = None
    match_id: str | None = None


class TradeTable(Struct, gc=False):
    """A `trade` message."""

    action: str
    data: list[TradeItem]


class BookItem(Struct, gc=False):
    """One row of `orderBookL2`; deletes have no size, old updates no price."""

    symbol: str
    id: int
    side: str | None = None
    size: float | None = None
    price: float | None = None
    timestamp: str | None = None


class SymbolFilter(Struct, gc=False):
    """What a partial was filtered by."""

    symbol: str | None = None


class BookTable(Struct, gc=False):
    """An `orderBookL2` message."""

    action: str
    data: list[BookItem]
    filter: SymbolFilter | None = None


class QuoteItem(Struct, gc=False, rename="camel"):
    """One row of `quote`."""

    symbol: str
    timestamp: str
    bid_price: LooseNumber = None
    bid_size: LooseNumber = None
    ask_price: LooseNumber = None
    ask_size: LooseNumber = None


class QuoteTable(Struct, gc=False):
    """A `quote` message."""

    action: str
    data: list[QuoteItem]


class InstrumentItem(Struct, gc=False, rename="camel"):
    """One row of `instrument`; updates carry only what changed."""

    symbol: str
    state: str | None = None
    timestamp: str | None = None
    funding_rate: float | None = None
    funding_timestamp: str | None = None
    indicative_funding_rate: float | None = None
    indicative_settle_price: float | None = None
    mark_price: float | None = None
    open_interest: float | None = None
    last_price: float | None = None


class InstrumentTable(Struct, gc=False):
    """An `instrument` message."""

    action: str
    data: list[InstrumentItem]


class LiquidationItem(Struct, gc=False, rename={"order_id": "orderID", "leaves": "leavesQty"}):
    """One row of `liquidation`; deletes carry only the id."""

    symbol: str
    order_id: str
    side: str | None = None
    price: float | None = None
    leaves: float | None = None


class LiquidationTable(Struct, gc=False):
    """A `liquidation` message."""

    action: str
    data: list[LiquidationItem]


def taker_side(side: str | None) -> Side:
    """Return the taker's side; trades of index symbols have none."""
    if side is None:
        return "unknown"
    return "buy" if side == "Buy" else "sell"


class TradeMapper(Mapper):
    """`trade` inserts; the partial is a backlog of old trades."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle the table `trade`."""
        return (TradeTable, self.map) if tag == "trade" else None

    def map(self, message: TradeTable, local: str, emit: Emit) -> None:
        """Emit one trade per inserted row."""
        if message.action != "insert":
            return
        for item in message.data:
            emit(
                new_trade(
                    item.symbol,
                    EXCHANGE,
                    UNSET if item.match_id is None else item.match_id,
                    item.price,
                    item.size,
                    taker_side(item.side),
                    iso_text(item.timestamp),
                    local,
                )
            )


class BookMapper(Mapper):
    """`orderBookL2`, whose updates and deletes name levels by id alone."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._prices: dict[str, dict[int, float]] = self.keep({})
        """By symbol and id of a level."""

    def handler(self, tag: str) -> Handler | None:
        """Handle the table `orderBookL2`."""
        return (BookTable, self.map) if tag == "orderBookL2" else None

    def map(self, message: BookTable, local: str, emit: Emit) -> None:
        """Emit one change per message, or one snapshot per symbol of a partial."""
        action, data = message.action, message.data
        if action == "partial":
            self._map_partial(message, local, emit)
        elif len(data) == 1:
            self._map_row(data[0], action, local, emit)
        elif data:
            change = self._change(data, local, is_snapshot=False)
            if change.bids or change.asks:
                emit(change)
            if action == "delete":
                prices = self._prices[data[0].symbol]
                for item in data:
                    prices.pop(item.id, None)

    def _map_row(self, item: BookItem, action: str, local: str, emit: Emit) -> None:
        """Emit the change of one row, as `_change` would make it: most messages have no other."""
        prices = self._prices.get(item.symbol)
        if prices is None:
            prices = self._prices[item.symbol] = {}
        price = item.price
        if price is None:
            price = prices.get(item.id)
            if price is None:
                return
        else:
            prices[item.id] = price
        levels = [new_level(price, item.size or 0.0)]
        timestamp = iso_text(item.timestamp) if item.timestamp else local
        bids, asks = (levels, []) if item.side == "Buy" else ([], levels)
        emit(new_book_change(item.symbol, EXCHANGE, False, bids, asks, timestamp, local))
        if action == "delete":
            prices.pop(item.id, None)

    def _map_partial(self, message: BookTable, local: str, emit: Emit) -> None:
        by_symbol: dict[str, list[BookItem]] = {}
        for item in message.data:
            by_symbol.setdefault(item.symbol, []).append(item)
        for items in by_symbol.values():
            emit(self._change(items, local, is_snapshot=True))
        if not by_symbol and message.filter is not None and message.filter.symbol is not None:
            emit(
                BookChange(
                    symbol=message.filter.symbol,
                    exchange=EXCHANGE,
                    is_snapshot=True,
                    bids=[],
                    asks=[],
                    timestamp=local,
                    local_timestamp=local,
                )
            )

    def _change(self, items: list[BookItem], local: str, *, is_snapshot: bool) -> BookChange:
        prices = self._prices.setdefault(items[0].symbol, {})
        bids: list[BookLevel] = []
        asks: list[BookLevel] = []
        latest = items[0].timestamp or ""
        for item in items:
            price = item.price
            if price is None:
                price = prices.get(item.id)
            else:
                prices[item.id] = price
            timestamp = item.timestamp
            # Without the final Z, texts with and without a fraction compare by time.
            if timestamp and timestamp != latest and timestamp[:-1] > latest[:-1]:
                latest = timestamp
            # An update before the partial names an id with an unknown price.
            if price is not None:
                level = new_level(price, item.size or 0.0)
                (bids if item.side == "Buy" else asks).append(level)
        return BookChange(
            symbol=items[0].symbol,
            exchange=EXCHANGE,
            is_snapshot=is_snapshot,
            bids=bids,
            asks=asks,
            timestamp=iso_text(latest) if latest else local,
            local_timestamp=local,
        )


class BookTickerMapper(Mapper):
    """`quote` inserts."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle the table `quote`."""
        return (QuoteTable, self.map) if tag == "quote" else None

    def map(self, message: QuoteTable, local: str, emit: Emit) -> None:
        """Emit one ticker per inserted row."""
        if message.action != "insert":
            return
        for item in message.data:
            emit(
                BookTicker(
                    symbol=item.symbol,
                    exchange=EXCHANGE,
                    ask_amount=nonzero(item.ask_size),
                    ask_price=nonzero(item.ask_price),
                    bid_price=nonzero(item.bid_price),
                    bid_amount=nonzero(item.bid_size),
                    timestamp=iso_text(item.timestamp),
                    local_timestamp=local,
                )
            )


class DerivativeTickerMapper(TickerMapper):
    """`instrument`, whose updates carry only changed columns."""

    def handler(self, tag: str) -> Handler | None:
        """Handle the table `instrument`."""
        return (InstrumentTable, self.map) if tag == "instrument" else None

    def map(self, message: InstrumentTable, local: str, emit: Emit) -> None:
        """Emit a ticker for each instrument whose values changed."""
        is_partial = message.action == "partial"
        for item in message.data:
            # Updates of instruments that no partial announced cannot be completed.
            if not is_partial and item.symbol not in self._tickers:
                continue
            if item.state is not None and item.state not in ("Open", "Closed"):
                continue
            self._tickers.change(
                item.symbol,
                iso_text(item.timestamp) if item.timestamp else None,
                local,
                emit,
                funding_rate=item.funding_rate,
                predicted_funding_rate=item.indicative_funding_rate,
                funding_timestamp=iso_text(item.funding_timestamp)
                if item.funding_timestamp
                else None,
                index_price=item.indicative_settle_price,
                mark_price=item.mark_price,
                open_interest=item.open_interest,
                last_price=item.last_price,
            )


class LiquidationMapper(Mapper):
    """`liquidation` inserts; the order's side is the normalized one."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle the table `liquidation`."""
        return (LiquidationTable, self.map) if tag == "liquidation" else None

    def map(self, message: LiquidationTable, local: str, emit: Emit) -> None:
        """Emit one liquidation per inserted row; the venue gives no time."""
        if message.action != "insert":
            return
        for item in message.data:
            if item.price is None or item.leaves is None:
                raise MappingError(f"liquidation {item.order_id} has no price or no quantity.")
            emit(
                Liquidation(
                    symbol=item.symbol,
                    exchange=EXCHANGE,
                    id=item.order_id,
                    price=item.price,
                    amount=item.leaves,
                    side="buy" if item.side == "Buy" else "sell",
                    timestamp=local,
                    local_timestamp=local,
                )
            )


class RowSymbol(Struct, gc=False):
    """The symbol of any row."""

    symbol: str | None = None


class AnyTable(Struct, gc=False):
    """Any message, for the symbols it is about."""

    data: list[RowSymbol] = []
    filter: SymbolFilter | None = None


_any_table = msgspec.json.Decoder(AnyTable)


def read_symbols(message: bytes) -> tuple[str, ...]:
    """Return the symbols of the rows, or what an empty partial was filtered by."""
    table = _any_table.decode(message)
    rows: list[RowSymbol | SymbolFilter] = [*table.data]
    if not rows and table.filter is not None:
        rows.append(table.filter)
    return tuple(dict.fromkeys(row.symbol for row in rows if row.symbol))
