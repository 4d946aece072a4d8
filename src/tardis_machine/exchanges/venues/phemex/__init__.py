"""Phemex: messages told apart by the key that holds their data.

Two families of channels: `trades`, `book` and `market24h` with scaled integers for spot and
coin-margined markets, `trades_p`, `orderbook_p` and `perp_market24h_pack_p` with decimal text for
perpetuals in USDT and USDC. A symbol is sent on one of the two.
"""

from tardis_machine.exchanges.spec import Mapper, Venue, Version, WireFormat
from tardis_machine.exchanges.tags import KeyTag
from tardis_machine.exchanges.venues.phemex.feed import FEED, read_subscribe
from tardis_machine.exchanges.venues.phemex.mappers import (
    EXCHANGE,
    BookMapper,
    DerivativeTickerMapper,
    TradeMapper,
)
from tardis_machine.exchanges.venues.phemex.messages import read_symbols
from tardis_machine.exchanges.venues.phemex.symbols import split_filters
from tardis_machine.model.requests import Filter


def locate(tag: str) -> Filter:
    """Return the channel; only packs are not named by their key."""
    return Filter("perp_market24h_pack_p" if tag == "method" else tag)


def _always(mapper: type[Mapper], scaled: str, decimal: str) -> tuple[Version, ...]:
    return (Version(mapper, split_filters(scaled, decimal)),)


FORMAT = WireFormat(
    tag=KeyTag(
        *("orderbook_p", "book", "trades_p", "trades"),
        *("method", "market24h", "spot_market24h"),
    ),
    locate=locate,
    symbols=read_symbols,
    read_subscribe=read_subscribe,
)

VENUES = {
    EXCHANGE: Venue(
        formats=(FORMAT,),
        versions={
            "trade": _always(TradeMapper, "trades", "trades_p"),
            "book_change": _always(BookMapper, "book", "orderbook_p"),
            "derivative_ticker": _always(
                DerivativeTickerMapper, "market24h", "perp_market24h_pack_p"
            ),
        },
        feed=FEED,
    )
}
