"""OKX and OKCoin: protocol v3 at first, protocol v5 since 2021 (OKCoin: 2023; spreads: always)."""

from collections.abc import Mapping

from tardis_machine.exchanges.spec import Mapper, Venue, Version
from tardis_machine.exchanges.venues.okex import (
    spreads,
    v3,
    v3_derivatives,
    v5,
    v5_derivatives,
    v5_options,
)
from tardis_machine.exchanges.venues.okex.feed import SPREADS, make_feed
from tardis_machine.exchanges.venues.okex.fields import symbol_filters
from tardis_machine.exchanges.venues.okex.v3 import table_of
from tardis_machine.exchanges.venues.okex.v5_derivatives import ticker_filters


def _version(mapper: type[Mapper], *channels: str) -> Version:
    return Version(mapper, symbol_filters(*channels))


_TRADES = _version(v5.TradeMapper, "trades")
_BOOKS = _version(v5.BookMapper, "books")
_SHALLOW_BOOKS = _version(v5.ShallowBookMapper, "books50-l2-tbt")
_TICK_BY_TICK_BOOKS = _version(v5.TickByTickBookMapper, "books-l2-tbt")
_ALL_TRADES = _version(v5.AllTradesMapper, "trades-all")
_BOOK_TICKERS = _version(v5.BookTickerMapper, "bbo-tbt")


def _old_trades(exchange: str) -> Version:
    return _version(v3.TradeMapper, table_of(exchange, "trade"))


def _old_books(exchange: str) -> tuple[Version, ...]:
    tick_by_tick = table_of(exchange, "depth_l2_tbt")
    return (
        # Asked for from the start, though not read at first.
        _version(v3.DepthMapper, tick_by_tick, table_of(exchange, "depth")),
        _version(v3.TickByTickDepthMapper, tick_by_tick),
    )


def _old_book_tickers(exchange: str) -> Version:
    return _version(v3.BookTickerMapper, table_of(exchange, "ticker"))


def _okx_market(exchange: str) -> dict[str, tuple[Version, ...]]:
    """Return what every market of OKX has."""
    return {
        "trade": (
            _old_trades(exchange),
            _TRADES,
            _ALL_TRADES,
        ),
        "book_change": (
            *_old_books(exchange),
            _TICK_BY_TICK_BOOKS,
            _BOOKS,
            _TICK_BY_TICK_BOOKS,
            _BOOKS,
        ),
        "book_ticker": (
            _old_book_tickers(exchange),
            _version(v5.TickerBookTickerMapper, "tickers"),
            _BOOK_TICKERS,
        ),
    }


def _derivatives(exchange: str, *ticker_channels: str) -> dict[str, tuple[Version, ...]]:
    """Return what futures and swaps have besides."""
    tables = [table_of(exchange, channel) for channel in ticker_channels]
    return {
        "derivative_ticker": (
            _version(v3_derivatives.DerivativeTickerMapper, *tables),
            *(
                Version(mapper, ticker_filters(mapper))
                for mapper in (
                    v5_derivatives.UsdIndexTickerMapper,
                    v5_derivatives.DerivativeTickerMapper,
                )
            ),
        ),
        "liquidation": (
            _version(v3_derivatives.LiquidationMapper, table_of(exchange, "liquidation")),
            _version(v5_derivatives.LiquidationMapper, "liquidations", "liquidation-orders"),
        ),
    }


def adapt(version: Version, environment: Mapping[str, str]) -> Version:
    """Return the channel that credentials open; those of the public books are slower."""
    if version is _BOOKS:
        has_key = bool(environment.get("OKX_API_KEY"))
        if environment.get("OKX_API_COLO") or (has_key and environment.get("OKX_API_VIP_5")):
            return _TICK_BY_TICK_BOOKS
        return _SHALLOW_BOOKS if has_key else version
    if version is _ALL_TRADES and environment.get("OKX_USE_TRADES_CHANNEL"):
        return _TRADES
    return version


def _venue(exchange: str, versions: Mapping[str, tuple[Version, ...]]) -> Venue:
    return Venue(
        formats=(v3.FORMAT, v5.FORMAT),
        versions=versions,
        feed=make_feed(exchange),
        adapt=(lambda version, _: version) if exchange == "okcoin" else adapt,
    )


_OPTION_SUMMARY = (
    Version(v3_derivatives.OptionSummaryMapper, v3_derivatives.summary_filters),
    Version(v5_options.OptionSummaryMapper, v5_options.summary_filters),
)

VENUES = {
    "okex": _venue("okex", _okx_market("okex")),
    "okex-futures": _venue(
        "okex-futures",
        _okx_market("okex-futures") | _derivatives("okex-futures", "ticker", "mark_price"),
    ),
    "okex-swap": _venue(
        "okex-swap",
        _okx_market("okex-swap")
        | _derivatives("okex-swap", "ticker", "mark_price", "funding_rate"),
    ),
    "okex-options": _venue(
        "okex-options", _okx_market("okex-options") | {"option_summary": _OPTION_SUMMARY}
    ),
    "okcoin": _venue(
        "okcoin",
        {
            "trade": (_old_trades("okcoin"), _TRADES),
            "book_change": (*_old_books("okcoin"), _BOOKS),
            "book_ticker": (_old_book_tickers("okcoin"), _BOOK_TICKERS),
        },
    ),
    SPREADS: Venue(
        formats=(v5.FORMAT,),
        versions={
            "trade": (_version(spreads.SpreadTradeMapper, "sprd-public-trades"),),
            "book_change": (_version(spreads.SpreadBookMapper, "sprd-books5"),),
            "book_ticker": (_version(spreads.SpreadBookTickerMapper, "sprd-bbo-tbt"),),
        },
        feed=make_feed(SPREADS),
    ),
}
