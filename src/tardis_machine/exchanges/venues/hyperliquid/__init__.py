"""Hyperliquid: `{channel, data}`, every book a snapshot, coins in a case of their own."""

from tardis_machine.exchanges.spec import Mapper, Venue, Version, WireFormat, always
from tardis_machine.exchanges.venues.hyperliquid import mappers
from tardis_machine.exchanges.venues.hyperliquid.coins import native_coin
from tardis_machine.exchanges.venues.hyperliquid.feed import FEED, read_subscribe
from tardis_machine.model.requests import Filter


def _always(mapper: type[Mapper], channel: str) -> tuple[Version, ...]:
    return always(mapper, channel, convert=native_coin)


FORMAT = WireFormat(
    tag=mappers.BookTag(b'{"channel":"', mappers.Header, mappers.read_channel),
    locate=Filter,
    symbols=mappers.read_symbols,
    read_subscribe=read_subscribe,
)

VENUES = {
    mappers.EXCHANGE: Venue(
        formats=(FORMAT,),
        versions={
            "trade": _always(mappers.TradeMapper, "trades"),
            "book_change": (
                *_always(mappers.BookMapper, mappers.BOOK),
                *_always(mappers.FastBookMapper, mappers.FAST_BOOK),
            ),
            "derivative_ticker": _always(mappers.DerivativeTickerMapper, "activeAssetCtx"),
            "book_ticker": _always(mappers.BookTickerMapper, "bbo"),
        },
        feed=FEED,
    )
}
