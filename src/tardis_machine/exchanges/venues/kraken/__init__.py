"""Kraken: arrays until July 2026, objects since then."""

from tardis_machine.exchanges.spec import Venue, Version, channel_filters
from tardis_machine.exchanges.venues.kraken import v1, v2
from tardis_machine.exchanges.venues.kraken.feed import FEED

VENUES = {
    "kraken": Venue(
        formats=(v1.FORMAT, v2.FORMAT),
        versions={
            "trade": (
                Version(v1.TradeMapper, channel_filters("trade")),
                Version(v2.TradeMapper, channel_filters("trade")),
            ),
            "book_change": (
                Version(v1.BookMapper, channel_filters("book")),
                Version(v2.BookMapper, channel_filters("book")),
            ),
            "book_ticker": (
                Version(v1.BookTickerMapper, channel_filters("spread")),
                Version(v2.BookTickerMapper, channel_filters("ticker")),
            ),
        },
        feed=FEED,
    )
}
