"""Bitfinex: spot, and derivatives with two more data types."""

from tardis_machine.exchanges.spec import Mapper, Venue, Version, always
from tardis_machine.exchanges.venues.bitfinex import mappers
from tardis_machine.exchanges.venues.bitfinex.channels import FORMAT, LIQUIDATIONS
from tardis_machine.exchanges.venues.bitfinex.feed import make_feed
from tardis_machine.model.requests import Filter


def _always(mapper: type[Mapper], channel: str) -> tuple[Version, ...]:
    return always(mapper, channel, convert=str.upper)


_SPOT = {
    "trade": _always(mappers.TradeMapper, "trades"),
    "book_change": _always(mappers.BookMapper, "book"),
    "book_ticker": _always(mappers.BookTickerMapper, "ticker"),
}
_DERIVATIVES = _SPOT | {
    "derivative_ticker": _always(mappers.DerivativeTickerMapper, "status"),
    "liquidation": (Version(mappers.LiquidationMapper, lambda _: [Filter(LIQUIDATIONS)]),),
}

VENUES = {
    exchange: Venue(formats=(FORMAT,), versions=versions, feed=make_feed(exchange))
    for exchange, versions in (("bitfinex", _SPOT), ("bitfinex-derivatives", _DERIVATIVES))
}
