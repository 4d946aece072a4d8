"""Coinbase International Exchange: messages told apart by `channel` and `type`."""

from functools import lru_cache
from typing import ClassVar

from msgspec import UNSET, Struct

from tardis_machine.exchanges.level_texts import TextLevels, side_changes
from tardis_machine.exchanges.levels import book_change
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.exchanges.venues.coinbase.mappers import (
    EPOCH,
    Change,
    sides_of,
    snapshot_levels,
)
from tardis_machine.model.records import BookChange, BookTicker, Side, Trade
from tardis_machine.model.time import iso_text, ms_text, parse_us

INTERNATIONAL = "coinbase-international"

BUY = "BUY"
SIDES: dict[str, Side] = {BUY: "buy", "SELL": "sell"}
"""Sides of takers; the fills of an opening auction have none."""

PERPETUAL = "-PERP"
"""How the symbols of contracts with funding end."""

HOUR_MS = 3_600_000
HOUR_DIGITS = len("2024-11-06T01")


class Match(Struct, gc=False):
    """A `MATCH` message."""

    product_id: str
    match_id: str
    trade_price: float
    trade_qty: float
    time: str
    aggressor_side: str | None = None


class BookSnapshot(Struct, gc=False):
    """A `LEVEL2` snapshot; sizes may be text that is no number."""

    product_id: str
    bids: list[tuple[float, float | str]]
    asks: list[tuple[float, float | str]]
    time: str | None = None


class BookUpdate(Struct, gc=False):
    """A `LEVEL2` update."""

    product_id: str
    changes: list[Change]
    time: str


class Quote(Struct, gc=False):
    """A `LEVEL1` message; a side without orders is missing."""

    product_id: str
    bid_price: float | None = None
    bid_qty: float | None = None
    ask_price: float | None = None
    ask_qty: float | None = None
    time: str | None = None


class Risk(Struct, gc=False):
    """A `RISK` message."""

    product_id: str
    time: str
    index_price: float | None = None
    mark_price: float | None = None
    open_interest: float | None = None


class Funding(Struct, gc=False):
    """A `FUNDING` message: the rate of the hour that ends next, or the final one."""

    product_id: str
    time: str
    funding_rate: float
    is_final: bool | None = None


class InternationalTradeMapper(Mapper):
    """`MATCH`; the snapshot is an old trade."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle new matches."""
        return (Match, self.map) if tag == "MATCH,UPDATE" else None

    def map(self, message: Match, local: str, emit: Emit) -> None:
        """Emit the trade, seen from the taker."""
        emit(
            Trade(
                symbol=message.product_id,
                exchange=self.exchange,
                id=message.match_id,
                price=message.trade_price,
                amount=message.trade_qty,
                side=SIDES.get(message.aggressor_side or "", "unknown"),
                timestamp=iso_text(message.time),
                local_timestamp=local,
            )
        )


class InternationalBookMapper(Mapper):
    """`LEVEL2`."""

    is_stateless = True
    updates: ClassVar[TextLevels] = side_changes(BookUpdate, changes="changes", buy=BUY)

    def handler(self, tag: str) -> Handler | None:
        """Handle snapshots and updates."""
        if tag == "LEVEL2,UPDATE":
            return self.updates, self.map_update
        return (BookSnapshot, self.map_snapshot) if tag == "LEVEL2,SNAPSHOT" else None

    def map_snapshot(self, message: BookSnapshot, local: str, emit: Emit) -> None:
        """Emit all levels."""
        emit(
            BookChange(
                symbol=message.product_id,
                exchange=self.exchange,
                is_snapshot=True,
                bids=snapshot_levels(message.bids),
                asks=snapshot_levels(message.asks),
                timestamp=ms_time_or_local(message.time, local),
                local_timestamp=local,
            )
        )

    def map_update(self, message: BookUpdate, local: str, emit: Emit) -> None:
        """Emit changed levels."""
        bids, asks = sides_of(message.changes, BUY)
        timestamp = iso_text(message.time)
        emit(
            book_change(
                message.product_id, self.exchange, bids, asks, timestamp, local, is_snapshot=False
            )
        )


class InternationalBookTickerMapper(Mapper):
    """`LEVEL1`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle the first best levels and those that follow."""
        return (Quote, self.map) if tag in ("LEVEL1,SNAPSHOT", "LEVEL1,UPDATE") else None

    def map(self, message: Quote, local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        emit(
            BookTicker(
                symbol=message.product_id,
                exchange=self.exchange,
                ask_amount=UNSET if message.ask_qty is None else message.ask_qty,
                ask_price=UNSET if message.ask_price is None else message.ask_price,
                bid_price=UNSET if message.bid_price is None else message.bid_price,
                bid_amount=UNSET if message.bid_qty is None else message.bid_qty,
                timestamp=ms_time_or_local(message.time, local),
                local_timestamp=local,
            )
        )


class InternationalTickerMapper(TickerMapper):
    """`RISK` and `FUNDING` of perpetuals, with the price of their last `MATCH`."""

    def handler(self, tag: str) -> Handler | None:
        """Handle the channels a ticker is made of."""
        handlers: dict[str, Handler] = {
            "MATCH,UPDATE": (Match, self.map_match),
            "RISK,SNAPSHOT": (Risk, self.map_risk),
            "RISK,UPDATE": (Risk, self.map_risk),
            "FUNDING,UPDATE": (Funding, self.map_funding),
        }
        return handlers.get(tag)

    def map_match(self, message: Match, local: str, emit: Emit) -> None:
        """Remember the last price until another message has news."""
        if message.product_id.endswith(PERPETUAL):
            self._tickers.of(message.product_id).update(last_price=message.trade_price)

    def map_risk(self, message: Risk, local: str, emit: Emit) -> None:
        """Take prices and open interest."""
        if message.product_id.endswith(PERPETUAL):
            self._tickers.change(
                message.product_id,
                iso_text(message.time),
                local,
                emit,
                index_price=message.index_price,
                mark_price=message.mark_price,
                open_interest=message.open_interest,
            )

    def map_funding(self, message: Funding, local: str, emit: Emit) -> None:
        """Take the rate, and when it is paid unless it was just now."""
        if message.product_id.endswith(PERPETUAL):
            self._tickers.change(
                message.product_id,
                iso_text(message.time),
                local,
                emit,
                funding_rate=message.funding_rate,
                funding_timestamp=next_hour(message.time) if message.is_final is False else None,
            )


def next_hour(time: str) -> str:
    """Return the start of the hour after a time."""
    return hour_after(f"{time[:HOUR_DIGITS]}:00:00.000Z" if time.endswith("Z") else time)


@lru_cache(maxsize=256)
def hour_after(time: str) -> str:
    """Return the start of the hour after a time; rates come many times per hour."""
    return ms_text((parse_us(time) // 1000 // HOUR_MS + 1) * HOUR_MS)


def ms_time_or_local(time: str | None, local: str) -> str:
    """Return the venue's time, or the arrival time where it is missing or faulty."""
    return local if time is None or time < EPOCH else iso_text(time)
