"""Reads one record out of a parsed envelope; the mirror of `writers`.

A reader takes the envelope, its payload, the record's local time text and the function that writes
a payload time. Wrong values raise ValueError or LookupError, which `decode` explains.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import UNSET

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.writers import (
    BAR_KINDS,
    BAR_NUMBERS,
    OPTION_TYPES,
    SIDES,
    optional_numbers,
)
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.control import Disconnect, FeedError, NormalizedRecord
from tardis_machine.model.numbers import whole
from tardis_machine.model.records import (
    BarKind,
    BookChange,
    BookLevel,
    BookSnapshot,
    BookTicker,
    DerivativeTicker,
    Liquidation,
    OptionSummary,
    OptionType,
    Side,
    SnapshotLevel,
    Trade,
    TradeBar,
)

TimeText: TypeAlias = Callable[[Timestamp, int], str]
"""Writes a payload time; the second argument is its bit of `time_digits`."""
ReadRecord: TypeAlias = Callable[[pb.NormalizedEvent, Any, str, TimeText], NormalizedRecord]

_TIMESTAMP, _SECOND_TIME, _THIRD_TIME = 2, 4, 8

_SIDES: dict[int, Side] = {number: side for side, number in SIDES.items()}
_OPTION_TYPES: dict[int, OptionType] = {number: kind for kind, number in OPTION_TYPES.items()}
_BAR_KINDS: dict[int, BarKind] = {number: kind for kind, number in BAR_KINDS.items()}

_BOOK_TICKER_NUMBERS = optional_numbers(pb.BookTicker)
_DERIVATIVE_TICKER_NUMBERS = optional_numbers(pb.DerivativeTicker)
_OPTION_SUMMARY_NUMBERS = optional_numbers(pb.OptionSummary)

MAX_EMPTY_LEVELS = 1_000_000
"""More than any book has: a damaged `depth` must not fill the memory."""


def read_trade(event: pb.NormalizedEvent, payload: pb.Trade, local: str, time: TimeText) -> Trade:
    """Read a trade."""
    return Trade(
        symbol=event.symbol,
        exchange=event.exchange,
        id=payload.id if payload.HasField("id") else UNSET,
        price=payload.price,
        amount=payload.amount,
        side=_SIDES[payload.side],
        timestamp=time(payload.timestamp, _TIMESTAMP),
        local_timestamp=local,
    )


def read_liquidation(
    event: pb.NormalizedEvent, payload: pb.Liquidation, local: str, time: TimeText
) -> Liquidation:
    """Read a liquidation."""
    return Liquidation(
        symbol=event.symbol,
        exchange=event.exchange,
        id=payload.id if payload.HasField("id") else UNSET,
        price=payload.price,
        amount=payload.amount,
        side=_SIDES[payload.side],
        timestamp=time(payload.timestamp, _TIMESTAMP),
        local_timestamp=local,
    )


def read_book_change(
    event: pb.NormalizedEvent, payload: pb.BookChange, local: str, time: TimeText
) -> BookChange:
    """Read a book change."""
    return BookChange(
        symbol=event.symbol,
        exchange=event.exchange,
        is_snapshot=payload.is_snapshot,
        bids=_levels(BookLevel, payload.bid_prices, payload.bid_amounts),
        asks=_levels(BookLevel, payload.ask_prices, payload.ask_amounts),
        timestamp=time(payload.timestamp, _TIMESTAMP),
        local_timestamp=local,
    )


def read_book_snapshot(
    event: pb.NormalizedEvent, payload: pb.BookSnapshot, local: str, time: TimeText
) -> BookSnapshot:
    """Read a computed snapshot with its empty levels."""
    bids = _levels(SnapshotLevel, payload.bid_prices, payload.bid_amounts)
    asks = _levels(SnapshotLevel, payload.ask_prices, payload.ask_amounts)
    depth = payload.depth
    return BookSnapshot(
        symbol=event.symbol,
        exchange=event.exchange,
        name=payload.name,
        depth=depth,
        interval=whole(payload.interval),
        grouping=whole(payload.grouping) if payload.HasField("grouping") else UNSET,
        bids=_filled(bids, payload.bid_entries if payload.HasField("bid_entries") else depth),
        asks=_filled(asks, payload.ask_entries if payload.HasField("ask_entries") else depth),
        timestamp=time(payload.timestamp, _TIMESTAMP),
        local_timestamp=local,
    )


def _levels(level: type[Any], prices: Sequence[float], amounts: Sequence[float]) -> list[Any]:
    """Join two columns."""
    if len(prices) != len(amounts):
        raise ValueError(f"{len(prices)} prices but {len(amounts)} amounts")
    return list(map(level, prices, amounts))


def _filled(levels: list[SnapshotLevel], entries: int) -> list[SnapshotLevel]:
    """Append the empty levels that are not stored."""
    missing = entries - len(levels)
    if not 0 <= missing <= MAX_EMPTY_LEVELS:
        raise ValueError(f"{len(levels)} levels stored for {entries} entries")
    return levels + [SnapshotLevel()] * missing


def _optional_numbers(payload: Any, names: tuple[str, ...]) -> dict[str, float]:
    return {name: getattr(payload, name) for name in names if payload.HasField(name)}


def read_book_ticker(
    event: pb.NormalizedEvent, payload: pb.BookTicker, local: str, time: TimeText
) -> BookTicker:
    """Read a book ticker."""
    return BookTicker(
        symbol=event.symbol,
        exchange=event.exchange,
        **_optional_numbers(payload, _BOOK_TICKER_NUMBERS),
        timestamp=time(payload.timestamp, _TIMESTAMP),
        local_timestamp=local,
    )


def read_derivative_ticker(
    event: pb.NormalizedEvent, payload: pb.DerivativeTicker, local: str, time: TimeText
) -> DerivativeTicker:
    """Read a derivative ticker."""
    has_funding = payload.HasField("funding_timestamp")
    return DerivativeTicker(
        symbol=event.symbol,
        exchange=event.exchange,
        **_optional_numbers(payload, _DERIVATIVE_TICKER_NUMBERS),
        funding_timestamp=time(payload.funding_timestamp, _SECOND_TIME) if has_funding else UNSET,
        timestamp=time(payload.timestamp, _TIMESTAMP),
        local_timestamp=local,
    )


def read_option_summary(
    event: pb.NormalizedEvent, payload: pb.OptionSummary, local: str, time: TimeText
) -> OptionSummary:
    """Read an option summary."""
    return OptionSummary(
        symbol=event.symbol,
        exchange=event.exchange,
        option_type=_OPTION_TYPES[payload.option_type],
        strike_price=payload.strike_price,
        expiration_date=time(payload.expiration_date, _SECOND_TIME),
        **_optional_numbers(payload, _OPTION_SUMMARY_NUMBERS),
        underlying_index=payload.underlying_index,
        timestamp=time(payload.timestamp, _TIMESTAMP),
        local_timestamp=local,
    )


def read_trade_bar(
    event: pb.NormalizedEvent, payload: pb.TradeBar, local: str, time: TimeText
) -> TradeBar:
    """Read a trade bar."""
    return TradeBar(
        symbol=event.symbol,
        exchange=event.exchange,
        name=payload.name,
        interval=whole(payload.interval),
        kind=_BAR_KINDS[payload.kind],
        **{name: getattr(payload, name) for name in BAR_NUMBERS},
        vwap=payload.vwap if payload.HasField("vwap") else None,
        open_timestamp=time(payload.open_timestamp, _SECOND_TIME),
        close_timestamp=time(payload.close_timestamp, _THIRD_TIME),
        local_timestamp=local,
        timestamp=time(payload.timestamp, _TIMESTAMP),
    )


def read_error(
    event: pb.NormalizedEvent, payload: pb.ControlError, local: str, _: TimeText
) -> FeedError:
    """Read a feed error."""
    return FeedError(
        exchange=event.exchange,
        local_timestamp=local,
        details=payload.details,
        subsequent_errors_count=payload.subsequent_errors_count,
    )


def read_disconnect(
    event: pb.NormalizedEvent, payload: pb.ControlDisconnect, local: str, _: TimeText
) -> Disconnect:
    """Read a disconnect."""
    has_symbols = payload.HasField("symbols")
    return Disconnect(
        exchange=event.exchange,
        local_timestamp=local,
        symbols=list(payload.symbols.values) if has_symbols else UNSET,
    )


READERS: dict[PayloadCase, ReadRecord] = {
    PayloadCase.TRADE: read_trade,
    PayloadCase.BOOK_CHANGE: read_book_change,
    PayloadCase.BOOK_SNAPSHOT: read_book_snapshot,
    PayloadCase.GROUPED_BOOK_SNAPSHOT: read_book_snapshot,
    PayloadCase.QUOTE: read_book_snapshot,
    PayloadCase.BOOK_TICKER: read_book_ticker,
    PayloadCase.DERIVATIVE_TICKER: read_derivative_ticker,
    PayloadCase.LIQUIDATION: read_liquidation,
    PayloadCase.OPTION_SUMMARY: read_option_summary,
    PayloadCase.TRADE_BAR: read_trade_bar,
    PayloadCase.ERROR: read_error,
    PayloadCase.DISCONNECT: read_disconnect,
}
