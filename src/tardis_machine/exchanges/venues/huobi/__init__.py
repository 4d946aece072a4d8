"""Huobi (HTX): spot, three markets of derivatives, and options, which were withdrawn."""

from tardis_machine.exchanges.spec import Mapper, Venue, Version, always
from tardis_machine.exchanges.venues.huobi import derivatives, market, mbp, options
from tardis_machine.exchanges.venues.huobi.feed import FEEDS
from tardis_machine.exchanges.venues.huobi.topics import FORMAT, native_symbol


def _always(mapper: type[Mapper], *channels: str) -> tuple[Version, ...]:
    return always(mapper, *channels, convert=native_symbol)


_TRADES = _always(market.TradeMapper, "trade")
_DEPTH = _always(market.DepthMapper, "depth")
_QUOTES = _always(market.BookTickerMapper, "bbo")

_FUTURES = {
    "trade": _TRADES,
    "book_change": _DEPTH,
    "derivative_ticker": always(
        derivatives.DerivativeTickerMapper, "basis", "open_interest", convert=str.upper
    ),
    "liquidation": (
        Version(derivatives.FuturesLiquidationMapper, derivatives.futures_liquidation_filters),
    ),
    "book_ticker": _QUOTES,
}
_SWAPS = _FUTURES | {
    "derivative_ticker": always(
        *(derivatives.DerivativeTickerMapper, "basis", "open_interest", "funding_rate"),
        convert=str.upper,
    ),
    "liquidation": always(derivatives.LiquidationMapper, "liquidation_orders", convert=str.upper),
}

VENUES = {
    exchange: Venue(formats=(FORMAT,), versions=versions, feed=FEEDS.get(exchange))
    for exchange, versions in {
        "huobi": {
            "trade": _TRADES,
            "book_change": (*_DEPTH, *_always(mbp.MbpMapper, "mbp")),
            "book_ticker": _QUOTES,
        },
        "huobi-dm": _FUTURES,
        "huobi-dm-swap": _SWAPS,
        "huobi-dm-linear-swap": _SWAPS,
        "huobi-dm-options": {
            "trade": _TRADES,
            "book_change": _DEPTH,
            "option_summary": (Version(options.OptionSummaryMapper, options.summary_filters),),
        },
    }.items()
}
