"""Phemex messages: scaled integers on the older channels, decimal text on the newer ones.

Both are read as numbers. Times are nanoseconds.
"""

import msgspec
from msgspec import Raw, Struct

PACK_UPDATE = "perp_market24h_pack_p.update"
"""The `method` of messages that carry the tickers of many perpetuals."""


class TradeItem(Struct, gc=False, array_like=True):
    """One trade."""

    time_ns: int
    side: str
    price: float
    amount: float


class ScaledTrades(Struct, gc=False):
    """A `trades` message."""

    symbol: str
    trades: list[TradeItem]
    type: str | None = None


class DecimalTrades(Struct, gc=False):
    """A `trades_p` message."""

    symbol: str
    trades_p: list[TradeItem]
    type: str | None = None


class Level(Struct, gc=False, array_like=True):
    """Price and quantity."""

    price: float
    amount: float


class Sides(Struct, gc=False):
    """The levels of a book message."""

    bids: list[Level]
    asks: list[Level]


class ScaledBook(Struct, gc=False):
    """A `book` message."""

    symbol: str
    book: Sides
    timestamp: int
    type: str | None = None


class DecimalBook(Struct, gc=False):
    """An `orderbook_p` message."""

    symbol: str
    orderbook_p: Sides
    timestamp: int
    type: str | None = None


class ScaledTicker(Struct, gc=False, rename="camel"):
    """The ticker of one contract."""

    symbol: str
    close: float | None = None
    open_interest: float | None = None
    index_price: float | None = None
    mark_price: float | None = None
    funding_rate: float | None = None
    pred_funding_rate: float | None = None


class ScaledTickerMessage(Struct, gc=False):
    """A `market24h` message."""

    market24h: ScaledTicker
    timestamp: int


class PackRow(Struct, gc=False, array_like=True):
    """The ticker of one perpetual, with columns in a fixed order."""

    symbol: str
    open: Raw = Raw()
    high: Raw = Raw()
    low: Raw = Raw()
    last: float | None = None
    volume: Raw = Raw()
    turnover: Raw = Raw()
    open_interest: float | None = None
    index: float | None = None
    mark: float | None = None
    funding_rate: float | None = None
    predicted_funding_rate: float | None = None


class PackMessage(Struct, gc=False):
    """A message with a `method`; only that of packs says what `data` is."""

    method: str | None = None
    data: Raw = Raw()
    timestamp: int | None = None


class OneSymbol(Struct, gc=False):
    """Any ticker, for its symbol."""

    symbol: str | None = None


class RowSymbol(Struct, gc=False, array_like=True):
    """Any row of a pack, for its symbol."""

    symbol: str


class AnyMessage(Struct, gc=False):
    """Any message, for the symbols it is about."""

    symbol: str | None = None
    market24h: OneSymbol | None = None
    spot_market24h: OneSymbol | None = None
    method: str | None = None
    data: Raw = Raw()


_decode_any = msgspec.json.Decoder(AnyMessage).decode
_decode_row_symbols = msgspec.json.Decoder(list[RowSymbol]).decode
decode_rows = msgspec.json.Decoder(list[PackRow], strict=False).decode


def read_symbols(message: bytes) -> tuple[str, ...]:
    """Return the symbol of a message, or those of a pack."""
    decoded = _decode_any(message)
    if decoded.method == PACK_UPDATE:
        return tuple(row.symbol for row in _decode_row_symbols(decoded.data))
    holder = decoded.market24h or decoded.spot_market24h or decoded
    return () if holder.symbol is None else (holder.symbol,)
