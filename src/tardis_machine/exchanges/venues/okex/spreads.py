"""Spreads, which trade two legs as one: protocol v5 with channels and a symbol of their own."""

import msgspec
from msgspec import Struct

from tardis_machine.exchanges.levels import book_levels
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.venues.okex.v5 import (
    NO_LEVEL,
    BookItem,
    Push,
    TradeItem,
    TradeMapper,
)
from tardis_machine.model.records import BookChange, BookTicker
from tardis_machine.model.time import ms_text


class Spread(Struct, gc=False, rename="camel"):
    """The one spread a message is about."""

    sprd_id: str


class SpreadBooks(Struct, gc=False):
    """A message with books, or best levels; without data it has no news."""

    arg: Spread
    data: list[BookItem] = []


class SpreadTrade(TradeItem, gc=False):
    """One trade; its price is a difference, which may be negative."""

    inst_id: str = msgspec.field(name="sprdId")


class SpreadTradeMapper(TradeMapper):
    """`sprd-public-trades`."""

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (Push[SpreadTrade], self.map) if tag == "sprd-public-trades" else None


class SpreadBookMapper(Mapper):
    """`sprd-books5`, which sends the best five levels each time."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (SpreadBooks, self.map) if tag == "sprd-books5" else None

    def map(self, message: SpreadBooks, local: str, emit: Emit) -> None:
        """Emit each book that has a time."""
        for item in message.data:
            if item.ts == 0:
                continue
            emit(
                BookChange(
                    symbol=message.arg.sprd_id,
                    exchange=self.exchange,
                    is_snapshot=True,
                    bids=book_levels(item.bids),
                    asks=book_levels(item.asks),
                    timestamp=ms_text(item.ts),
                    local_timestamp=local,
                )
            )


class SpreadBookTickerMapper(Mapper):
    """`sprd-bbo-tbt`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (SpreadBooks, self.map) if tag == "sprd-bbo-tbt" else None

    def map(self, message: SpreadBooks, local: str, emit: Emit) -> None:
        """Emit the best bid and ask of whatever has a time; a side may be empty."""
        for item in message.data:
            if item.ts == 0:
                continue
            bid = item.bids[0] if item.bids else NO_LEVEL
            ask = item.asks[0] if item.asks else NO_LEVEL
            emit(
                BookTicker(
                    symbol=message.arg.sprd_id,
                    exchange=self.exchange,
                    ask_amount=ask.amount,
                    ask_price=ask.price,
                    bid_price=bid.price,
                    bid_amount=bid.amount,
                    timestamp=ms_text(item.ts),
                    local_timestamp=local,
                )
            )
