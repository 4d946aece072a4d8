"""Derivatives before v5: names in snake case, or in camel case for some kinds of contracts."""

from collections.abc import Iterable

from msgspec import UNSET, Struct

from tardis_machine.exchanges.numbers import LooseNumber
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.exchanges.venues.bybit.v5 import SIDES, Push, order_side
from tardis_machine.model.numbers import optional_number
from tardis_machine.model.records import BookChange, BookLevel, Liquidation, Trade
from tardis_machine.model.time import iso_text, ms_text, parse_us, us_text

CAMEL = "camel_"
"""Prefix of fields that are written in camel case."""


def wire_name(field: str) -> str:
    """Return the name of a field in messages."""
    if not field.startswith(CAMEL):
        return field
    first, *rest = field.removeprefix(CAMEL).split("_")
    return first + "".join(map(str.capitalize, rest))


class TradeItem(Struct, gc=False, rename=wire_name):
    """One trade; the oldest have only a time of whole seconds."""

    symbol: str
    side: str
    size: float
    price: float
    timestamp: str = ""
    trade_id: str | None = None
    camel_trade_id: str | None = None
    trade_time_ms: float | None = None
    camel_trade_time_ms: float | None = None


class Row(Struct, gc=False):
    """One level; a deleted one has no size."""

    price: float
    side: str
    size: float = 0.0


class Rows(Struct, gc=False, rename=wire_name):
    """A book under either of its names, or what changed of it."""

    order_book: list[Row] = []
    camel_order_book: list[Row] = []
    delete: list[Row] = []
    update: list[Row] = []
    insert: list[Row] = []


class BookMessage(Struct, gc=False, rename=wire_name):
    """An `orderBookL2_25` message."""

    topic: str
    type: str
    data: list[Row] | Rows
    timestamp_e6: int | None = None
    camel_timestamp_e6: int | None = None


class Info(Struct, gc=False, rename=wire_name):
    """State of one contract; updates only have what changed."""

    symbol: str = ""
    funding_rate_e6: LooseNumber = None
    camel_funding_rate_e6: LooseNumber = None
    predicted_funding_rate_e6: LooseNumber = None
    camel_predicted_funding_rate_e6: LooseNumber = None
    next_funding_time: str | None = None
    camel_next_funding_time: str | None = None
    index_price: LooseNumber = None
    camel_index_price: LooseNumber = None
    index_price_e4: LooseNumber = None
    camel_index_price_e4: LooseNumber = None
    mark_price: LooseNumber = None
    camel_mark_price: LooseNumber = None
    mark_price_e4: LooseNumber = None
    camel_mark_price_e4: LooseNumber = None
    open_interest: LooseNumber = None
    camel_open_interest_e8: LooseNumber = None
    open_interest_e8: LooseNumber = None
    last_price: LooseNumber = None
    camel_last_price: LooseNumber = None
    last_price_e4: LooseNumber = None
    camel_last_price_e4: LooseNumber = None
    updated_at: str = ""


class InfoData(Info, gc=False):
    """The state itself, or a list with what changed of it."""

    update: list[Info] = []


class InfoMessage(Struct, gc=False, rename=wire_name):
    """An `instrument_info` message."""

    data: InfoData
    timestamp_e6: int | None = None
    camel_timestamp_e6: int | None = None


class LiquidationItem(Struct, gc=False):
    """One liquidation; `side` is that of the position."""

    symbol: str
    side: str
    price: float
    qty: float
    time: float
    id: int | str | None = None


class LiquidationMessage(Struct, gc=False):
    """A `liquidation` message; those that were made from REST answers have several items."""

    data: LiquidationItem | list[LiquidationItem]


class TradeMapper(Mapper):
    """`trade`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (Push[TradeItem], self.map) if tag.startswith("trade.") else None

    def map(self, message: Push[TradeItem], local: str, emit: Emit) -> None:
        """Emit one trade per item."""
        for item in message.data:
            time_ms = item.trade_time_ms or item.camel_trade_time_ms
            emit(
                Trade(
                    symbol=item.symbol,
                    exchange=self.exchange,
                    id=item.trade_id or item.camel_trade_id or UNSET,
                    price=item.price,
                    amount=item.size,
                    side=SIDES.get(item.side, "unknown"),
                    timestamp=ms_text(time_ms) if time_ms else iso_text(item.timestamp),
                    local_timestamp=local,
                )
            )


class BookMapper(Mapper):
    """`orderBookL2_25`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (BookMessage, self.map) if tag.startswith("orderBookL2_25.") else None

    def map(self, message: BookMessage, local: str, emit: Emit) -> None:
        """Emit the book, or what changed of it."""
        is_snapshot = message.type == "snapshot"
        rows = rows_of(message.data, is_snapshot=is_snapshot)
        timestamp = time_of(message)
        if timestamp is None:
            raise ValueError("a book has neither `timestamp_e6` nor `timestampE6`")
        emit(
            BookChange(
                symbol=message.topic.rpartition(".")[2],
                exchange=self.exchange,
                is_snapshot=is_snapshot,
                bids=side_levels(rows, "Buy"),
                asks=side_levels(rows, "Sell"),
                timestamp=timestamp,
                local_timestamp=local,
            )
        )


class DerivativeTickerMapper(TickerMapper):
    """`instrument_info`."""

    def handler(self, tag: str) -> Handler | None:
        """Handle states of contracts."""
        return (InfoMessage, self.map) if tag.startswith("instrument_info.") else None

    def map(self, message: InfoMessage, local: str, emit: Emit) -> None:
        """Emit the ticker if a value changed."""
        info = message.data if message.data.symbol else message.data.update[0]
        self._tickers.change(
            info.symbol,
            time_of(message) or iso_text(info.updated_at),
            local,
            emit,
            last_price=price_of(
                (info.last_price, info.camel_last_price),
                (info.last_price_e4, info.camel_last_price_e4),
            ),
            open_interest=open_interest_of(info),
            funding_rate=scaled(info.funding_rate_e6, info.camel_funding_rate_e6, 1e6),
            funding_timestamp=funding_time(info.next_funding_time or info.camel_next_funding_time),
            predicted_funding_rate=scaled(
                info.predicted_funding_rate_e6, info.camel_predicted_funding_rate_e6, 1e6
            ),
            index_price=price_of(
                (info.index_price, info.camel_index_price),
                (info.index_price_e4, info.camel_index_price_e4),
            ),
            mark_price=price_of(
                (info.mark_price, info.camel_mark_price),
                (info.mark_price_e4, info.camel_mark_price_e4),
            ),
        )


class LiquidationMapper(Mapper):
    """`liquidation`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle liquidations."""
        return (LiquidationMessage, self.map) if tag.startswith("liquidation.") else None

    def map(self, message: LiquidationMessage, local: str, emit: Emit) -> None:
        """Emit one liquidation per item; only those of REST answers have ids."""
        data = message.data
        for item in data if isinstance(data, list) else [data]:
            emit(
                Liquidation(
                    symbol=item.symbol,
                    exchange=self.exchange,
                    id=UNSET if item is data else str(item.id),
                    price=item.price,
                    amount=item.qty,
                    side=order_side(item.side),
                    timestamp=ms_text(item.time),
                    local_timestamp=local,
                )
            )


def rows_of(data: list[Row] | Rows, *, is_snapshot: bool) -> list[Row]:
    """Return the levels of a message in the order in which they apply."""
    if isinstance(data, list):
        return data
    if is_snapshot:
        return data.order_book or data.camel_order_book
    return [*data.delete, *data.update, *data.insert]


def side_levels(rows: Iterable[Row], side: str) -> list[BookLevel]:
    """Return the levels of one side."""
    return [BookLevel(row.price, row.size) for row in rows if row.side == side]


def time_of(message: BookMessage | InfoMessage) -> str | None:
    """Return the time of a message under either of its names."""
    time_us = message.timestamp_e6 or message.camel_timestamp_e6
    return us_text(time_us) if time_us else None


def scaled(snake: LooseNumber, camel: LooseNumber, factor: float) -> float | None:
    """Return a number that was sent as an integer, under either of its names."""
    value = optional_number(camel if snake is None else snake)
    return None if value is None else value / factor


def price_of(
    names: tuple[LooseNumber, LooseNumber], scaled_names: tuple[LooseNumber, LooseNumber]
) -> float | None:
    """Return a price under either of its names, or as an integer under either of two others."""
    price = optional_number(names[1] if names[0] is None else names[0])
    return scaled(*scaled_names, 1e4) if price is None else price


def open_interest_of(info: Info) -> float | None:
    """Return the open interest under any of its names."""
    value = optional_number(info.open_interest)
    if value is None:
        return scaled(info.camel_open_interest_e8, info.open_interest_e8, 1e8)
    return value


def funding_time(text: str | None) -> str | None:
    """Return when funding is paid; contracts without it have no time, or one before 1970."""
    return iso_text(text) if text and parse_us(text) > 0 else None
