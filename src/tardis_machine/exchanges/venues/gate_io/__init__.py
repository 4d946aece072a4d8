"""Gate.io: spot in WebSocket v3 until April 2023, in v4 since then; perpetual futures."""

from tardis_machine.exchanges.spec import Mapper, Venue, Version, always, channel_filters
from tardis_machine.exchanges.venues.gate_io import feed, futures, spot, spot_v3


def _version(mapper: type[Mapper], channel: str) -> Version:
    return Version(mapper, channel_filters(channel, convert=str.upper))


VENUES = {
    "gate-io": Venue(
        formats=(spot_v3.FORMAT, spot.FORMAT),
        versions={
            "trade": (
                _version(spot_v3.TradeMapper, "trades"),
                _version(spot.TradeMapper, "trades"),
            ),
            "book_change": (
                _version(spot_v3.BookMapper, "depth"),
                _version(spot.JoinedBookMapper, "order_book_update"),
                _version(spot.BookMapper, "obu"),
            ),
            "book_ticker": (_version(spot.BookTickerMapper, "book_ticker"),),
        },
        feed=feed.SPOT_FEED,
    ),
    "gate-io-futures": Venue(
        formats=(futures.FORMAT,),
        versions={
            "trade": always(futures.TradeMapper, "trades", convert=str.upper),
            "book_change": always(futures.BookMapper, "order_book", convert=str.upper),
            "derivative_ticker": always(
                futures.DerivativeTickerMapper, "tickers", convert=str.upper
            ),
            "book_ticker": always(futures.BookTickerMapper, "book_ticker", convert=str.upper),
        },
        feed=feed.FUTURES_FEED,
    ),
}
