"""Protocol v3: tables `<market>/<channel>`, ISO times, a symbol in every row."""

from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct

from tardis_machine.exchanges.level_texts import TextLevels, has_levels, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.numbers import LooseNumber, nonzero
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, WireFormat
from tardis_machine.exchanges.tags import StartTag
from tardis_machine.model.errors import MappingError
from tardis_machine.model.records import BookTicker, Trade
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import iso_text

MARKETS = {
    "okex": "spot",
    "okex-futures": "futures",
    "okex-swap": "swap",
    "okex-options": "option",
    "okcoin": "spot",
}

EPOCH = "1970-01-01T00:00:00.000Z"
"""The time of books that have none."""

Row = TypeVar("Row")


class TableName(Struct, gc=False):
    """The part of a message that tells tables apart."""

    table: str | None = None


class Table(Struct, Generic[Row], gc=False):
    """A message; only books have an action."""

    data: list[Row]
    action: str | None = None


class TradeRow(Struct, gc=False):
    """One trade; derivatives have a quantity, spot markets a size."""

    instrument_id: str
    price: float
    side: Literal["buy", "sell"]
    timestamp: str
    qty: float | None = None
    size: float | None = None
    trade_id: str | float | None = None


class BookRow(Struct, gc=False):
    """Changed levels of one book, or all of them."""

    instrument_id: str
    bids: list[Level]
    asks: list[Level]
    timestamp: str


class TickerRow(Struct, gc=False):
    """State of one instrument, of which tickers, mark prices and funding rates tell parts."""

    instrument_id: str
    timestamp: str | None = None
    best_bid: LooseNumber = None
    best_bid_size: LooseNumber = None
    best_ask: LooseNumber = None
    best_ask_size: LooseNumber = None
    last: LooseNumber = None
    open_interest: LooseNumber = None
    mark_price: float | None = None
    funding_rate: float | None = None
    funding_time: str | None = None
    estimated_rate: LooseNumber = None


class InstrumentRow(Struct, gc=False):
    """The symbol of any row."""

    instrument_id: str | None = None


class AnyTable(Struct, gc=False):
    """Any message, for the symbols it is about."""

    data: list[InstrumentRow] = []


class Subscribe(Struct, gc=False):
    """A client's subscribe message."""

    args: list[str]


def table_of(exchange: str, channel: str) -> str:
    """Return the table of a channel in the market of an exchange."""
    return f"{MARKETS[exchange]}/{channel}"


class TradeMapper(Mapper):
    """`<market>/trade`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades of the exchange's market."""
        return (Table[TradeRow], self.map) if tag == table_of(self.exchange, "trade") else None

    def map(self, message: Table[TradeRow], local: str, emit: Emit) -> None:
        """Emit one trade per row."""
        for row in message.data:
            amount = row.size if row.qty is None else row.qty
            if amount is None:
                raise MappingError(f"a trade of {row.instrument_id} has neither qty nor size.")
            emit(
                Trade(
                    symbol=row.instrument_id,
                    exchange=self.exchange,
                    # Clients have never seen ids that came as numbers.
                    id=row.trade_id if isinstance(row.trade_id, str) else UNSET,
                    price=row.price,
                    amount=amount,
                    side=row.side,
                    timestamp=iso_text(row.timestamp),
                    local_timestamp=local,
                )
            )


class DepthMapper(Mapper):
    """`<market>/depth`."""

    is_stateless = True
    channel = "depth"
    books: ClassVar[TextLevels] = pair_levels(Table[BookRow], "data", bids="bids", asks="asks")

    def handler(self, tag: str) -> Handler | None:
        """Handle books of the exchange's market."""
        return (self.books, self.map) if tag == table_of(self.exchange, self.channel) else None

    def map(self, message: Table[BookRow], local: str, emit: Emit) -> None:
        """Emit each book that has a time and, unless it is a snapshot, a changed level."""
        is_snapshot = message.action == "partial"
        for row in message.data:
            timestamp = iso_text(row.timestamp)
            bids, asks = row.bids, row.asks
            if timestamp == EPOCH or not (is_snapshot or has_levels(bids) or has_levels(asks)):
                continue
            emit(
                book_change(
                    row.instrument_id,
                    self.exchange,
                    bids,
                    asks,
                    timestamp,
                    local,
                    is_snapshot=is_snapshot,
                )
            )


class TickByTickDepthMapper(DepthMapper):
    """`<market>/depth_l2_tbt`."""

    channel = "depth_l2_tbt"


class BookTickerMapper(Mapper):
    """`<market>/ticker`, for its best levels."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers of the exchange's market."""
        return (Table[TickerRow], self.map) if tag == table_of(self.exchange, "ticker") else None

    def map(self, message: Table[TickerRow], local: str, emit: Emit) -> None:
        """Emit the best bid and ask of each row."""
        for row in message.data:
            if row.timestamp is None:
                raise MappingError(f"a ticker of {row.instrument_id} has no timestamp.")
            emit(
                BookTicker(
                    symbol=row.instrument_id,
                    exchange=self.exchange,
                    ask_amount=nonzero(row.best_ask_size),
                    ask_price=nonzero(row.best_ask),
                    bid_price=nonzero(row.best_bid),
                    bid_amount=nonzero(row.best_bid_size),
                    timestamp=iso_text(row.timestamp),
                    local_timestamp=local,
                )
            )


_any_table = msgspec.json.Decoder(AnyTable)


def read_symbols(message: bytes) -> tuple[str, ...]:
    """Return the symbols of the rows."""
    rows = _any_table.decode(message).data
    return tuple(dict.fromkeys(row.instrument_id for row in rows if row.instrument_id))


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"op": "subscribe", "args": ["spot/trade:BTC-USDT"]}`."""
    if not isinstance(message, dict) or message.get("op") != "subscribe":
        return None
    filters = []
    for argument in msgspec.convert(message, Subscribe).args:
        channel, _, symbol = argument.partition(":")
        filters.append(Filter(channel, (symbol,) if symbol else None))
    return filters


FORMAT = WireFormat(
    tag=StartTag(b'{"table":"', TableName, lambda message: message.table),
    locate=Filter,
    symbols=read_symbols,
    read_subscribe=read_subscribe,
)
