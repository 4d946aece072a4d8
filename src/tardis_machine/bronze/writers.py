"""Writes the fields of one record into a reused payload message.

A factory takes the payload once, keeps its sub-messages and columns in local variables, and
returns the function that is called per record. That is several times faster than a new message
per event (docs/performance.md). Every function sets or clears every field, so that nothing of the
record before is left, and returns the payload's bits of `time_digits`.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import UNSET

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.times import Instant
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.records import (
    BarKind,
    BookChange,
    BookSnapshot,
    BookTicker,
    DerivativeTicker,
    EncodedBookSnapshot,
    Liquidation,
    OptionSummary,
    OptionType,
    Side,
    SnapshotLevel,
    Trade,
    TradeBar,
)

ReadTime: TypeAlias = Callable[[str], Instant]
WriteRecord: TypeAlias = Callable[[Any], int]
MakeWriter: TypeAlias = Callable[[Any, ReadTime], WriteRecord]
Columns: TypeAlias = tuple[list[float], list[float]]

SIDES: dict[Side, pb.Side] = {"buy": pb.SIDE_BUY, "sell": pb.SIDE_SELL, "unknown": pb.SIDE_UNKNOWN}
OPTION_TYPES: dict[OptionType, pb.OptionType] = {
    "call": pb.OPTION_TYPE_CALL,
    "put": pb.OPTION_TYPE_PUT,
}
BAR_KINDS: dict[BarKind, pb.BarKind] = {
    "time": pb.BAR_KIND_TIME,
    "volume": pb.BAR_KIND_VOLUME,
    "tick": pb.BAR_KIND_TICK,
}

BAR_NUMBERS = ("open", "high", "low", "close", "volume", "buy_volume", "sell_volume", "trades")


def optional_numbers(message: Any) -> tuple[str, ...]:
    """Return the names of a message's optional doubles, in the order of their numbers."""
    fields = message.DESCRIPTOR.fields
    return tuple(
        field.name for field in fields if field.has_presence and field.type == field.TYPE_DOUBLE
    )


def write_execution(payload: pb.Trade | pb.Liquidation, read: ReadTime) -> WriteRecord:
    """Return the writer of trades and liquidations, which have the same fields."""
    timestamp = payload.timestamp

    def write(record: Trade | Liquidation) -> int:
        timestamp.seconds, timestamp.nanos, digits = read(record.timestamp)
        if record.id is UNSET:
            payload.ClearField("id")
        else:
            payload.id = record.id
        payload.price = record.price
        payload.amount = record.amount
        payload.side = SIDES[record.side]
        return digits << 1

    return write


def write_book_change(payload: pb.BookChange, read: ReadTime) -> WriteRecord:
    """Return the writer of book changes."""
    timestamp = payload.timestamp
    bid_prices, bid_amounts = payload.bid_prices, payload.bid_amounts
    ask_prices, ask_amounts = payload.ask_prices, payload.ask_amounts

    def write(record: BookChange) -> int:
        timestamp.seconds, timestamp.nanos, digits = read(record.timestamp)
        payload.is_snapshot = record.is_snapshot
        bids, asks = record.bids, record.asks
        bid_prices[:] = [level.price for level in bids]
        bid_amounts[:] = [level.amount for level in bids]
        ask_prices[:] = [level.price for level in asks]
        ask_amounts[:] = [level.amount for level in asks]
        return digits << 1

    return write


def write_one_bid(payload: pb.BookChange, read: ReadTime) -> WriteRecord:
    """Return the writer of book changes that are one bid."""
    return _write_one_level(payload, payload.bid_prices, payload.bid_amounts, "bids", read)


def write_one_ask(payload: pb.BookChange, read: ReadTime) -> WriteRecord:
    """Return the writer of book changes that are one ask."""
    return _write_one_level(payload, payload.ask_prices, payload.ask_amounts, "asks", read)


def _write_one_level(
    payload: pb.BookChange, prices: Any, amounts: Any, side: str, read: ReadTime
) -> WriteRecord:
    """Return a writer that puts one level where the last one was: the columns never change size."""
    timestamp, levels_of = payload.timestamp, attrgetter(side)
    prices.append(0.0)
    amounts.append(0.0)
    known_second, is_snapshot = 0, False

    def write(record: BookChange) -> int:
        nonlocal known_second, is_snapshot
        second, timestamp.nanos, digits = read(record.timestamp)
        if second != known_second:
            timestamp.seconds = known_second = second
        if record.is_snapshot is not is_snapshot:
            payload.is_snapshot = is_snapshot = record.is_snapshot
        (level,) = levels_of(record)
        prices[0] = level.price
        amounts[0] = level.amount
        return digits << 1

    return write


def write_book_snapshot(payload: pb.BookSnapshot, read: ReadTime) -> WriteRecord:
    """Return the writer of computed snapshots, grouped ones and quotes."""
    timestamp = payload.timestamp
    bid_prices, bid_amounts = payload.bid_prices, payload.bid_amounts
    ask_prices, ask_amounts = payload.ask_prices, payload.ask_amounts

    def write(record: BookSnapshot | EncodedBookSnapshot) -> int:
        if isinstance(record, EncodedBookSnapshot):
            record = record.decoded()
        timestamp.seconds, timestamp.nanos, digits = read(record.timestamp)
        payload.name = record.name
        payload.depth = record.depth
        payload.interval = record.interval
        _set_optional(payload, "grouping", record.grouping)
        bid_prices[:], bid_amounts[:] = _present_levels(record.bids)
        ask_prices[:], ask_amounts[:] = _present_levels(record.asks)
        depth = record.depth
        _set_optional(payload, "bid_entries", _entries_unless(depth, record.bids))
        _set_optional(payload, "ask_entries", _entries_unless(depth, record.asks))
        return digits << 1

    return write


def _present_levels(levels: Sequence[SnapshotLevel]) -> Columns:
    """Split levels into prices and amounts, without the empty ones at the end."""
    prices = [level.price for level in levels if level.price is not UNSET]
    amounts = [level.amount for level in levels if level.amount is not UNSET]
    count = len(prices)
    if count != len(amounts) or (
        count < len(levels)
        and any(level.price is UNSET or level.amount is UNSET for level in levels[:count])
    ):
        raise ValueError("snapshot levels must be complete, and empty levels must come last")
    return prices, amounts


def _entries_unless(depth: int, levels: Sequence[SnapshotLevel]) -> Any:
    """Return the length of a side that is not as long as the depth says."""
    return UNSET if len(levels) == depth else len(levels)


def _set_optional(payload: Any, field: str, value: Any) -> None:
    if value is UNSET or value is None:
        payload.ClearField(field)
    else:
        setattr(payload, field, value)


def write_book_ticker(payload: pb.BookTicker, read: ReadTime) -> WriteRecord:
    """Return the writer of book tickers."""
    timestamp, numbers = payload.timestamp, optional_numbers(payload)

    def write(record: BookTicker) -> int:
        timestamp.seconds, timestamp.nanos, digits = read(record.timestamp)
        for field in numbers:
            _set_optional(payload, field, getattr(record, field))
        return digits << 1

    return write


def write_derivative_ticker(payload: pb.DerivativeTicker, read: ReadTime) -> WriteRecord:
    """Return the writer of derivative tickers."""
    timestamp, numbers = payload.timestamp, optional_numbers(payload)

    def write(record: DerivativeTicker) -> int:
        timestamp.seconds, timestamp.nanos, digits = read(record.timestamp)
        for field in numbers:
            _set_optional(payload, field, getattr(record, field))
        if record.funding_timestamp is UNSET:
            payload.ClearField("funding_timestamp")
            return digits << 1
        funding = payload.funding_timestamp
        funding.seconds, funding.nanos, funding_digits = read(record.funding_timestamp)
        # An epoch time of zero leaves both numbers at their defaults.
        funding.SetInParent()
        return digits << 1 | funding_digits << 2

    return write


def write_option_summary(payload: pb.OptionSummary, read: ReadTime) -> WriteRecord:
    """Return the writer of option summaries."""
    timestamp, expiration, numbers = (
        payload.timestamp,
        payload.expiration_date,
        optional_numbers(payload),
    )

    def write(record: OptionSummary) -> int:
        timestamp.seconds, timestamp.nanos, digits = read(record.timestamp)
        expiration.seconds, expiration.nanos, expiration_digits = read(record.expiration_date)
        payload.option_type = OPTION_TYPES[record.option_type]
        payload.strike_price = record.strike_price
        for field in numbers:
            _set_optional(payload, field, getattr(record, field))
        payload.underlying_index = record.underlying_index
        return digits << 1 | expiration_digits << 2

    return write


def write_trade_bar(payload: pb.TradeBar, read: ReadTime) -> WriteRecord:
    """Return the writer of trade bars."""
    timestamp, opened, closed = payload.timestamp, payload.open_timestamp, payload.close_timestamp

    def write(record: TradeBar) -> int:
        timestamp.seconds, timestamp.nanos, digits = read(record.timestamp)
        opened.seconds, opened.nanos, open_digits = read(record.open_timestamp)
        closed.seconds, closed.nanos, close_digits = read(record.close_timestamp)
        payload.name = record.name
        payload.interval = record.interval
        payload.kind = BAR_KINDS[record.kind]
        for field in BAR_NUMBERS:
            setattr(payload, field, getattr(record, field))
        _set_optional(payload, "vwap", record.vwap)
        return digits << 1 | open_digits << 2 | close_digits << 3

    return write


def write_error(payload: pb.ControlError, _: ReadTime) -> WriteRecord:
    """Return the writer of feed errors."""

    def write(record: FeedError) -> int:
        payload.details = record.details
        payload.subsequent_errors_count = record.subsequent_errors_count
        return 0

    return write


def write_disconnect(payload: pb.ControlDisconnect, _: ReadTime) -> WriteRecord:
    """Return the writer of disconnects."""

    def write(record: Disconnect) -> int:
        payload.ClearField("symbols")
        if record.symbols is not UNSET:
            payload.symbols.values.extend(record.symbols)
            payload.symbols.SetInParent()
        return 0

    return write


WRITERS: dict[PayloadCase, MakeWriter] = {
    PayloadCase.TRADE: write_execution,
    PayloadCase.BOOK_CHANGE: write_book_change,
    PayloadCase.BOOK_SNAPSHOT: write_book_snapshot,
    PayloadCase.GROUPED_BOOK_SNAPSHOT: write_book_snapshot,
    PayloadCase.QUOTE: write_book_snapshot,
    PayloadCase.BOOK_TICKER: write_book_ticker,
    PayloadCase.DERIVATIVE_TICKER: write_derivative_ticker,
    PayloadCase.LIQUIDATION: write_execution,
    PayloadCase.OPTION_SUMMARY: write_option_summary,
    PayloadCase.TRADE_BAR: write_trade_bar,
    PayloadCase.ERROR: write_error,
    PayloadCase.DISCONNECT: write_disconnect,
}
