"""Reads one record out of a parsed envelope; the mirror of `writers`.

A reader takes the envelope, its payload, the text of the local time, `time_digits` and the function
that writes the other times. Wrong values raise ValueError or LookupError, which `decode` explains.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import UNSET, UnsetType

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.writers import (
    BAR_KINDS,
    BAR_NUMBERS,
    OPTION_TYPES,
    SIDES,
    optional_numbers,
)
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.ndjson import NormalizedRecord
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
"""Writes a time with six fractional digits, or with three for 0."""
ReadRecord: TypeAlias = Callable[[pb.NormalizedEvent, Any, str, int, TimeText], NormalizedRecord]

# Bits of `time_digits`; the first one belongs to the local time.
_TIMESTAMP, _SECOND_TIME, _THIRD_TIME = 2, 4, 8

_SIDES: dict[int, Side] = {number: side for side, number in SIDES.items()}
_OPTION_TYPES: dict[int, OptionType] = {number: kind for kind, number in OPTION_TYPES.items()}
_BAR_KINDS: dict[int, BarKind] = {number: kind for kind, number in BAR_KINDS.items()}

_BOOK_TICKER_NUMBERS = optional_numbers(pb.BookTicker)
_DERIVATIVE_TICKER_NUMBERS = optional_numbers(pb.DerivativeTicker)
_OPTION_SUMMARY_NUMBERS = optional_numbers(pb.OptionSummary)

MAX_EMPTY_LEVELS = 1_000_000
"""More than any book has: a damaged `depth` must not fill the memory."""


def read_trade(
    event: pb.NormalizedEvent, payload: pb.Trade, local: str, digits: int, text: TimeText
) -> Trade:
    """Read a trade."""
    return Trade(
        symbol=event.symbol,
        exchange=event.exchange,
        id=payload.id or _empty_id(payload),
        price=payload.price,
        amount=payload.amount,
        side=_SIDES[payload.side],
        timestamp=text(payload.timestamp, digits & _TIMESTAMP),
        local_timestamp=local,
    )


def _empty_id(payload: pb.Trade | pb.Liquidation) -> str | UnsetType:
    """Distinguish an empty id from a missing one."""
    return "" if payload.HasField("id") else UNSET


def read_liquidation(
    event: pb.NormalizedEvent, payload: pb.Liquidation, local: str, digits: int, text: TimeText
) -> Liquidation:
    """Read a liquidation."""
    return Liquidation(
        symbol=event.symbol,
        exchange=event.exchange,
        id=payload.id or _empty_id(payload),
        price=payload.price,
        amount=payload.amount,
        side=_SIDES[payload.side],
        timestamp=text(payload.timestamp, digits & _TIMESTAMP),
        local_timestamp=local,
    )


def read_book_change(
    event: pb.NormalizedEvent, payload: pb.BookChange, local: str, digits: int, text: TimeText
) -> BookChange:
    """Read a book change."""
    return BookChange(
        symbol=event.symbol,
        exchange=event.exchange,
        is_snapshot=payload.is_snapshot,
        bids=_levels(BookLevel, payload.bid_prices, payload.bid_amounts),
        asks=_levels(BookLevel, payload.ask_prices, payload.ask_amounts),
        timestamp=text(payload.timestamp, digits & _TIMESTAMP),
        local_timestamp=local,
    )


def read_book_snapshot(
    event: pb.NormalizedEvent, payload: pb.BookSnapshot, local: str, digits: int, text: TimeText
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
        timestamp=text(payload.timestamp, digits & _TIMESTAMP),
        local_timestamp=local,
    )


def _levels(level: type[Any], prices: Sequence[float], amounts: Sequence[float]) -> list[Any]:
    """Join two columns."""
    # A slice copies a column to a list at once; iterating asks for one number after the other.
    price_list, amount_list = prices[:], amounts[:]
    if len(price_list) != len(amount_list):
        raise ValueError(f"{len(price_list)} prices but {len(amount_list)} amounts")
    return list(map(level, price_list, amount_list))


def _filled(levels: list[SnapshotLevel], entries: int) -> list[SnapshotLevel]:
    """Append the empty levels that are not stored."""
    missing = entries - len(levels)
    if not 0 <= missing <= MAX_EMPTY_LEVELS:
        raise ValueError(f"{len(levels)} levels stored for {entries} entries")
    return levels + [SnapshotLevel()] * missing


def _optional_numbers(payload: Any, names: tuple[str, ...]) -> dict[str, float]:
    return {name: getattr(payload, name) for name in names if payload.HasField(name)}


def read_book_ticker(
    event: pb.NormalizedEvent, payload: pb.BookTicker, local: str, digits: int, text: TimeText
) -> BookTicker:
    """Read a book ticker."""
    return BookTicker(
        symbol=event.symbol,
        exchange=event.exchange,
        **_optional_numbers(payload, _BOOK_TICKER_NUMBERS),
        timestamp=text(payload.timestamp, digits & _TIMESTAMP),
        local_timestamp=local,
    )


def read_derivative_ticker(
    event: pb.NormalizedEvent, payload: pb.DerivativeTicker, local: str, digits: int, text: TimeText
) -> DerivativeTicker:
    """Read a derivative ticker."""
    has_funding = payload.HasField("funding_timestamp")
    return DerivativeTicker(
        symbol=event.symbol,
        exchange=event.exchange,
        **_optional_numbers(payload, _DERIVATIVE_TICKER_NUMBERS),
        funding_timestamp=text(payload.funding_timestamp, digits & _SECOND_TIME)
        if has_funding
        else UNSET,
        timestamp=text(payload.timestamp, digits & _TIMESTAMP),
        local_timestamp=local,
    )


def read_option_summary(
    event: pb.NormalizedEvent, payload: pb.OptionSummary, local: str, digits: int, text: TimeText
) -> OptionSummary:
    """Read an option summary."""
    return OptionSummary(
        symbol=event.symbol,
        exchange=event.exchange,
        option_type=_OPTION_TYPES[payload.option_type],
        strike_price=payload.strike_price,
        expiration_date=text(payload.expiration_date, digits & _SECOND_TIME),
        **_optional_numbers(payload, _OPTION_SUMMARY_NUMBERS),
        underlying_index=payload.underlying_index,
        timestamp=text(payload.timestamp, digits & _TIMESTAMP),
        local_timestamp=local,
    )


def read_trade_bar(
    event: pb.NormalizedEvent, payload: pb.TradeBar, local: str, digits: int, text: TimeText
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
        open_timestamp=text(payload.open_timestamp, digits & _SECOND_TIME),
        close_timestamp=text(payload.close_timestamp, digits & _THIRD_TIME),
        local_timestamp=local,
        timestamp=text(payload.timestamp, digits & _TIMESTAMP),
    )


def read_error(
    event: pb.NormalizedEvent, payload: pb.ControlError, local: str, _: int, __: TimeText
) -> FeedError:
    """Read a feed error."""
    return FeedError(
        exchange=event.exchange,
        local_timestamp=local,
        details=payload.details,
        subsequent_errors_count=payload.subsequent_errors_count,
    )


def read_disconnect(
    event: pb.NormalizedEvent, payload: pb.ControlDisconnect, local: str, _: int, __: TimeText
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
