"""Spreads, which trade two legs as one: protocol v5 with channels and a symbol of their own."""

from typing import ClassVar

import msgspec

from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import book_change
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.venues.okex.v5 import (
    BookItem,
    BookTickerMapper,
    Instrument,
    InstrumentPush,
    Push,
    TradeItem,
    TradeMapper,
)
from tardis_machine.model.time import ms_text


class Spread(Instrument, gc=False):
    """The one spread a message is about."""

    inst_id: str = msgspec.field(name="sprdId")


class SpreadBooks(InstrumentPush[BookItem], gc=False):
    """A message with books, or best levels; without data it has no news."""

    arg: Spread


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
    books: ClassVar[TextLevels] = pair_levels(SpreadBooks, "data", bids="bids", asks="asks")

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (self.books, self.map) if tag == "sprd-books5" else None

    def map(self, message: SpreadBooks, local: str, emit: Emit) -> None:
        """Emit each book that has a time."""
        for item in message.data:
            if item.ts == 0:
                continue
            emit(
                book_change(
                    message.arg.inst_id,
                    self.exchange,
                    item.bids,
                    item.asks,
                    ms_text(item.ts),
                    local,
                    is_snapshot=True,
                )
            )


class SpreadBookTickerMapper(BookTickerMapper):
    """`sprd-bbo-tbt`."""

    def handler(self, tag: str) -> Handler | None:
        """Handle best levels."""
        return (SpreadBooks, self.map_timed) if tag == "sprd-bbo-tbt" else None

    def map_timed(self, message: SpreadBooks, local: str, emit: Emit) -> None:
        """Emit the best bid and ask of whatever has a time."""
        message.data = [item for item in message.data if item.ts != 0]
        self.map(message, local, emit)
