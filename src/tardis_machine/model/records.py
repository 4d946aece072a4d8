"""Normalized records, one struct per type, exactly as they stand on the wire.

Times are text (see `model.time`), prices and amounts IEEE doubles, absent fields `UNSET` and left
out of the JSON. Field order is the key order of the API.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from tardis_machine.model.time import parse_us

Side: TypeAlias = Literal["buy", "sell", "unknown"]
OptionType: TypeAlias = Literal["call", "put"]
BarKind: TypeAlias = Literal["time", "volume", "tick"]
OptionalNumber: TypeAlias = float | UnsetType


class Record(
    msgspec.Struct,
    frozen=True,
    gc=False,
    tag_field="type",
    rename="camel",
    omit_defaults=True,
):
    """What every record can be asked."""

    @property
    def type(self) -> str:
        """Return the value of `type` on the wire."""
        return str(self.__struct_config__.tag)

    @property
    def local_time_us(self) -> int:
        """Return the arrival time in microseconds."""
        return parse_us(self.local_timestamp)  # type: ignore[attr-defined]


class TimedRecord(Record, frozen=True):
    """A record that also carries the venue's own time."""

    @property
    def time_us(self) -> int:
        """Return the venue's event time in microseconds."""
        return parse_us(self.timestamp)  # type: ignore[attr-defined]


class BookLevel(msgspec.Struct, frozen=True, gc=False):
    """One price level of a book change; amount 0 removes it."""

    price: float
    amount: float


class SnapshotLevel(msgspec.Struct, frozen=True, gc=False):
    """One level of a computed snapshot; both absent where the book is not that deep."""

    price: OptionalNumber = UNSET
    amount: OptionalNumber = UNSET


class Trade(TimedRecord, frozen=True, kw_only=True, tag="trade"):
    """One execution, with the taker's side."""

    symbol: str
    exchange: str
    id: str | UnsetType = UNSET
    price: float
    amount: float
    side: Side
    timestamp: str
    local_timestamp: str


class BlankTrade(Record, frozen=True, kw_only=True, tag="trade", omit_defaults=False):
    """What tardis-machine makes of another event on a stream of trades.

    Clients see it as there. It is no trade: nothing is computed from it, and it is not published.
    """

    symbol: str
    exchange: str
    id: str = "undefined"
    price: None = None
    amount: None = None
    side: Side = "buy"
    timestamp: None = None
    local_timestamp: str


class BookChange(TimedRecord, frozen=True, kw_only=True, tag="book_change"):
    """Changed price levels of an order book, or all of them when `is_snapshot`."""

    symbol: str
    exchange: str
    is_snapshot: bool
    bids: Sequence[BookLevel]
    asks: Sequence[BookLevel]
    timestamp: str
    local_timestamp: str


class EncodedBookChange(TimedRecord, frozen=True, kw_only=True, tag="book_change"):
    """A `BookChange` whose sides are JSON already, as a venue sent their numbers.

    Whoever asks for `bids` or `asks` gets levels, read from that text at each call.
    """

    symbol: str
    exchange: str
    is_snapshot: bool
    bid_text: msgspec.Raw = msgspec.field(name="bids")
    ask_text: msgspec.Raw = msgspec.field(name="asks")
    timestamp: str
    local_timestamp: str

    @property
    def bids(self) -> Sequence[BookLevel]:
        """Read the levels of the bids."""
        return _book_levels.decode(self.bid_text)

    @property
    def asks(self) -> Sequence[BookLevel]:
        """Read the levels of the asks."""
        return _book_levels.decode(self.ask_text)

    def decoded(self) -> BookChange:
        """Return the same change with its levels as structs."""
        return BookChange(
            symbol=self.symbol,
            exchange=self.exchange,
            is_snapshot=self.is_snapshot,
            bids=self.bids,
            asks=self.asks,
            timestamp=self.timestamp,
            local_timestamp=self.local_timestamp,
        )


AnyBookChange: TypeAlias = BookChange | EncodedBookChange
"""A book change in either form."""


class DerivativeTicker(TimedRecord, frozen=True, kw_only=True, tag="derivative_ticker"):
    """Everything known about a derivative instrument after one of its values changed."""

    symbol: str
    exchange: str
    last_price: OptionalNumber = UNSET
    open_interest: OptionalNumber = UNSET
    funding_rate: OptionalNumber = UNSET
    funding_timestamp: str | UnsetType = UNSET
    predicted_funding_rate: OptionalNumber = UNSET
    index_price: OptionalNumber = UNSET
    mark_price: OptionalNumber = UNSET
    timestamp: str
    local_timestamp: str


class Liquidation(TimedRecord, frozen=True, kw_only=True, tag="liquidation"):
    """One forced order; `buy` means a short position was liquidated."""

    symbol: str
    exchange: str
    id: str | UnsetType = UNSET
    price: float
    amount: float
    side: Side
    timestamp: str
    local_timestamp: str


class OptionSummary(TimedRecord, frozen=True, kw_only=True, tag="option_summary"):
    """Quotes, greeks and underlying of one option."""

    symbol: str
    exchange: str
    option_type: OptionType
    strike_price: float
    expiration_date: str
    best_bid_price: OptionalNumber = UNSET
    best_bid_amount: OptionalNumber = UNSET
    best_bid_iv: OptionalNumber = msgspec.field(default=UNSET, name="bestBidIV")
    best_ask_price: OptionalNumber = UNSET
    best_ask_amount: OptionalNumber = UNSET
    best_ask_iv: OptionalNumber = msgspec.field(default=UNSET, name="bestAskIV")
    last_price: OptionalNumber = UNSET
    open_interest: OptionalNumber = UNSET
    mark_price: OptionalNumber = UNSET
    mark_iv: OptionalNumber = msgspec.field(default=UNSET, name="markIV")
    delta: OptionalNumber = UNSET
    gamma: OptionalNumber = UNSET
    vega: OptionalNumber = UNSET
    theta: OptionalNumber = UNSET
    rho: OptionalNumber = UNSET
    underlying_price: OptionalNumber = UNSET
    underlying_index: str
    timestamp: str
    local_timestamp: str


class BookTicker(TimedRecord, frozen=True, kw_only=True, tag="book_ticker"):
    """Best bid and ask from a venue's own top-of-book feed."""

    symbol: str
    exchange: str
    ask_amount: OptionalNumber = UNSET
    ask_price: OptionalNumber = UNSET
    bid_price: OptionalNumber = UNSET
    bid_amount: OptionalNumber = UNSET
    timestamp: str
    local_timestamp: str


class BookSnapshot(TimedRecord, frozen=True, kw_only=True, tag="book_snapshot"):
    """The best `depth` levels of a book, computed from its changes."""

    symbol: str
    exchange: str
    name: str
    depth: int
    interval: int | float
    grouping: int | float | UnsetType = UNSET
    bids: Sequence[SnapshotLevel]
    asks: Sequence[SnapshotLevel]
    timestamp: str
    local_timestamp: str


class EncodedBookSnapshot(TimedRecord, frozen=True, kw_only=True, tag="book_snapshot"):
    """A `BookSnapshot` whose sides are JSON already, as pieces that hold any number of levels.

    A snapshot on every change repeats most of its levels; keeping their text is four times faster
    than writing them again (docs/performance.md). `decoded` gives the plain record.
    """

    symbol: str
    exchange: str
    name: str
    depth: int
    interval: int | float
    grouping: int | float | UnsetType = UNSET
    bids: list[msgspec.Raw]
    asks: list[msgspec.Raw]
    timestamp: str
    local_timestamp: str

    def decoded(self) -> BookSnapshot:
        """Return the same snapshot with its levels as structs."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        fields["bids"] = _snapshot_levels.decode(msgspec.json.encode(self.bids))
        fields["asks"] = _snapshot_levels.decode(msgspec.json.encode(self.asks))
        return BookSnapshot(**fields)


class TradeBar(TimedRecord, frozen=True, kw_only=True, tag="trade_bar"):
    """Open, high, low, close and volumes of the trades of one bar."""

    symbol: str
    exchange: str
    name: str
    interval: int | float
    kind: BarKind
    open: float
    high: float
    low: float
    close: float
    volume: float
    buy_volume: float
    sell_volume: float
    trades: int
    vwap: float | None
    open_timestamp: str
    close_timestamp: str
    local_timestamp: str
    timestamp: str


_book_levels = msgspec.json.Decoder(list[BookLevel])
_snapshot_levels = msgspec.json.Decoder(list[SnapshotLevel])

MarketRecord: TypeAlias = (
    Trade
    | BookChange
    | DerivativeTicker
    | Liquidation
    | OptionSummary
    | BookTicker
    | BookSnapshot
    | TradeBar
)
"""Every record that describes a market."""

RECORD_TYPES: dict[str, type[Record]] = {
    str(record.__struct_config__.tag): record
    for record in (
        Trade,
        BookChange,
        DerivativeTicker,
        Liquidation,
        OptionSummary,
        BookTicker,
        BookSnapshot,
        TradeBar,
    )
}


def decoded(record: Record) -> Record:
    """Return a record with its levels as structs, which those of others are already."""
    if isinstance(record, EncodedBookChange | EncodedBookSnapshot):
        return record.decoded()
    return record


def with_fields(record: Record, **changes: Any) -> Any:
    """Return a copy of a record with some fields changed."""
    return msgspec.structs.replace(record, **changes)
