"""Coinbase Exchange, and Coinbase International with messages and names of its own.

Messages of the first are told apart by `type`, which is also the recorded channel.
"""

from tardis_machine.exchanges.spec import Mapper, Venue, Version, WireFormat, always
from tardis_machine.exchanges.tags import SEPARATOR, StartTag, TextTag
from tardis_machine.exchanges.venues.coinbase import international, international_feed
from tardis_machine.exchanges.venues.coinbase.feed import FEED, read_subscribe
from tardis_machine.exchanges.venues.coinbase.mappers import (
    EXCHANGE,
    BookMapper,
    BookTickerMapper,
    TradeMapper,
    Type,
    read_symbols,
)
from tardis_machine.model.requests import Filter


def _always(mapper: type[Mapper], *channels: str) -> tuple[Version, ...]:
    return always(mapper, *channels, convert=str.upper)


FORMAT = WireFormat(
    tag=StartTag(b'{"type":"', Type, lambda message: message.type),
    locate=Filter,
    symbols=read_symbols,
    read_subscribe=read_subscribe,
)

INTERNATIONAL_FORMAT = WireFormat(
    tag=TextTag("channel", "type"),
    locate=lambda tag: Filter(tag.partition(SEPARATOR)[0]),
    symbols=read_symbols,
    read_subscribe=international_feed.read_subscribe,
)

VENUES = {
    EXCHANGE: Venue(
        formats=(FORMAT,),
        versions={
            "trade": _always(TradeMapper, "match"),
            "book_change": _always(BookMapper, "snapshot", "l2update"),
            "book_ticker": _always(BookTickerMapper, "ticker"),
        },
        feed=FEED,
    ),
    international.INTERNATIONAL: Venue(
        formats=(INTERNATIONAL_FORMAT,),
        versions={
            "trade": _always(international.InternationalTradeMapper, "MATCH"),
            "book_change": _always(international.InternationalBookMapper, "LEVEL2"),
            "derivative_ticker": _always(
                international.InternationalTickerMapper, "MATCH", "RISK", "FUNDING"
            ),
            "book_ticker": _always(international.InternationalBookTickerMapper, "LEVEL1"),
        },
        feed=international_feed.FEED,
    ),
}
