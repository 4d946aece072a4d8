"""Coinbase messages, and the mappers that read them."""

from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import UNSET, Struct

from tardis_machine.exchanges.level_texts import TextLevels, TextSides, side_changes
from tardis_machine.exchanges.levels import book_change
from tardis_machine.exchanges.spec import Emit, Handler, Mapper, one_symbol
from tardis_machine.model.makers import new_trade
from tardis_machine.model.numbers import to_number
from tardis_machine.model.records import BookChange, BookLevel, BookTicker
from tardis_machine.model.time import iso_us_text

EXCHANGE = "coinbase"

EPOCH = "1970"
"""Times before it are a known fault of the venue: it sends the year 1 for "unknown"."""


class Type(Struct, gc=False):
    """The part of a message that tells channels apart."""

    type: str | None = None


class Match(Struct, gc=False):
    """A `match` message; `side` is the maker's."""

    product_id: str
    trade_id: int | str
    price: float
    size: float
    time: str
    side: str | None = None


class Snapshot(Struct, gc=False):
    """A `snapshot` message; sizes are text because some of them are no numbers."""

    product_id: str
    bids: list[tuple[float, float | str]]
    asks: list[tuple[float, float | str]]
    time: str | None = None


class Change(Struct, gc=False, array_like=True):
    """One changed level."""

    side: str
    price: float
    amount: float


class L2Update(Struct, gc=False):
    """An `l2update` message."""

    product_id: str
    changes: list[Change]
    time: str | None = None


class Ticker(Struct, gc=False):
    """A `ticker` message; sizes are sent since late 2022."""

    product_id: str
    best_bid: float | None = None
    best_bid_size: float | None = None
    best_ask: float | None = None
    best_ask_size: float | None = None
    time: str | None = None


class Product(Struct, gc=False):
    """Any message, for its symbol."""

    product_id: str | None = None


class TradeMapper(Mapper):
    """`match`; the `last_match` sent on subscribe is an old trade."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle matches."""
        return (Match, self.map) if tag == "match" else None

    def map(self, message: Match, local: str, emit: Emit) -> None:
        """Emit the trade, seen from the taker."""
        emit(
            new_trade(
                message.product_id,
                EXCHANGE,
                str(message.trade_id),
                message.price,
                message.size,
                "buy" if message.side == "sell" else "sell",
                iso_us_text(message.time),
                local,
            )
        )


class BookMapper(Mapper):
    """`snapshot` and `l2update`."""

    updates: ClassVar[TextLevels] = side_changes(L2Update, changes="changes")

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._last_times: dict[str, str] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle snapshots and updates."""
        if tag == "l2update":
            return self.updates, self.map_update
        return (Snapshot, self.map_snapshot) if tag == "snapshot" else None

    def map_snapshot(self, message: Snapshot, local: str, emit: Emit) -> None:
        """Emit all levels."""
        emit(
            BookChange(
                symbol=message.product_id,
                exchange=EXCHANGE,
                is_snapshot=True,
                bids=snapshot_levels(message.bids),
                asks=snapshot_levels(message.asks),
                timestamp=time_or_local(message.time, local),
                local_timestamp=local,
            )
        )

    def map_update(self, message: L2Update, local: str, emit: Emit) -> None:
        """Emit changed levels; without a usable time they cannot be placed and are dropped."""
        timestamp = self._timestamp(message, local)
        if timestamp is None:
            return
        bids, asks = sides_of(message.changes, "buy")
        emit(
            book_change(
                message.product_id, EXCHANGE, bids, asks, timestamp, local, is_snapshot=False
            )
        )

    def _timestamp(self, message: L2Update, local: str) -> str | None:
        """Return the time of an update, instead of a faulty one that of the update before."""
        if message.time is None:
            return local
        if message.time < EPOCH:
            return self._last_times.get(message.product_id)
        timestamp = self._last_times[message.product_id] = iso_us_text(message.time)
        return timestamp


class BookTickerMapper(Mapper):
    """`ticker`, which is sent on trades, not on every change of the best levels."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (Ticker, self.map) if tag == "ticker" else None

    def map(self, message: Ticker, local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        emit(
            BookTicker(
                symbol=message.product_id,
                exchange=EXCHANGE,
                ask_amount=UNSET if message.best_ask_size is None else message.best_ask_size,
                ask_price=UNSET if message.best_ask is None else message.best_ask,
                bid_price=UNSET if message.best_bid is None else message.best_bid,
                bid_amount=UNSET if message.best_bid_size is None else message.best_bid_size,
                timestamp=time_or_local(message.time, local),
                local_timestamp=local,
            )
        )


def sides_of(changes: Sequence[Change] | TextSides, buy: str) -> tuple[Any, Any]:
    """Return what changed of the bids, which say `buy`, and of the asks."""
    if isinstance(changes, tuple):
        return changes
    bids = [change for change in changes if change.side == buy]
    return bids, [change for change in changes if change.side != buy]


def snapshot_levels(levels: list[tuple[float, float | str]]) -> list[BookLevel]:
    """Return the levels whose size is a number and not negative."""
    amounts = [(price, to_number(size)) for price, size in levels]
    return [BookLevel(price, amount) for price, amount in amounts if amount >= 0]


def time_or_local(time: str | None, local: str) -> str:
    """Return the venue's time, or the arrival time where it is missing or faulty."""
    return local if time is None or time < EPOCH else iso_us_text(time)


read_symbols = one_symbol(Product, lambda message: message.product_id)
"""Confirmations of subscriptions have none."""
