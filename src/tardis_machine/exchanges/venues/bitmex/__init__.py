"""BitMEX: tables pushed as partial, insert, update and delete actions."""

from tardis_machine.exchanges.spec import Mapper, Venue, Version, WireFormat, always
from tardis_machine.exchanges.tags import StartTag
from tardis_machine.exchanges.venues.bitmex.feed import FEED, read_subscribe
from tardis_machine.exchanges.venues.bitmex.mappers import (
    EXCHANGE,
    BookMapper,
    BookTickerMapper,
    DerivativeTickerMapper,
    LiquidationMapper,
    Table,
    TradeMapper,
    read_symbols,
)
from tardis_machine.model.requests import Filter


def _always(mapper: type[Mapper], channel: str) -> tuple[Version, ...]:
    return always(mapper, channel, convert=str.upper)


FORMAT = WireFormat(
    tag=StartTag(b'{"table":"', Table, lambda message: message.table),
    locate=Filter,
    symbols=read_symbols,
    read_subscribe=read_subscribe,
)

VENUES = {
    EXCHANGE: Venue(
        formats=(FORMAT,),
        versions={
            "trade": _always(TradeMapper, "trade"),
            "book_change": _always(BookMapper, "orderBookL2"),
            "derivative_ticker": _always(DerivativeTickerMapper, "instrument"),
            "liquidation": _always(LiquidationMapper, "liquidation"),
            "book_ticker": _always(BookTickerMapper, "quote"),
        },
        feed=FEED,
    )
}
