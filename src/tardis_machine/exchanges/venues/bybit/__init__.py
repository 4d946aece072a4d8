"""Bybit: a protocol for derivatives and one for spot at first, v5 for all since April 2023."""

from collections.abc import Callable

from tardis_machine.exchanges.spec import Mapper, Symbols, Venue, Version, channel_filters
from tardis_machine.exchanges.venues.bybit import old_spot, options, v2, v5
from tardis_machine.exchanges.venues.bybit.feed import make_feed
from tardis_machine.exchanges.venues.bybit.topics import DERIVATIVES_FORMAT, SPOT_FORMAT
from tardis_machine.model.requests import Filter


def _filters(channel: str) -> Callable[[Symbols], list[Filter]]:
    return channel_filters(channel, convert=str.upper)


def _version(mapper: type[Mapper], channel: str) -> Version:
    return Version(mapper, _filters(channel))


_TRADES = _version(v5.TradeMapper, "publicTrade")
_BOOKS = _version(v5.BookMapper, "orderbook.50")
_BOOK_TICKERS = _version(v5.BookTickerMapper, "orderbook.1")

VENUES = {
    "bybit": Venue(
        formats=(DERIVATIVES_FORMAT,),
        versions={
            "trade": (_version(v2.TradeMapper, "trade"), _TRADES),
            "book_change": (_version(v2.BookMapper, "orderBookL2_25"), _BOOKS),
            "derivative_ticker": (
                _version(v2.DerivativeTickerMapper, "instrument_info"),
                _version(v5.DerivativeTickerMapper, "tickers"),
            ),
            "liquidation": (
                _version(v2.LiquidationMapper, "liquidation"),
                _version(v5.LiquidationMapper, "liquidation"),
                _version(v5.AllLiquidationMapper, "allLiquidation"),
            ),
            "book_ticker": (_BOOK_TICKERS,),
        },
        feed=make_feed("bybit"),
    ),
    "bybit-spot": Venue(
        formats=(old_spot.FORMAT, SPOT_FORMAT),
        versions={
            "trade": (_version(old_spot.TradeMapper, "trade"), _TRADES),
            "book_change": (_version(old_spot.BookMapper, "depth"), _BOOKS),
            "book_ticker": (_version(old_spot.BookTickerMapper, "bookTicker"), _BOOK_TICKERS),
        },
        feed=make_feed("bybit-spot"),
    ),
    "bybit-options": Venue(
        formats=(options.FORMAT,),
        versions={
            "trade": (_TRADES,),
            "book_change": (_version(options.BookMapper, "orderbook.25"),),
            "option_summary": (_version(options.OptionSummaryMapper, "tickers"),),
        },
        feed=make_feed("bybit-options"),
    ),
}
