"""Deribit traffic: JSON-RPC notifications of book, trades and ticker, futures and options."""

from tardis_machine.sources.simulator.deribit.feed import DeribitFeed
from tardis_machine.sources.simulator.deribit.instruments import (
    FORWARD_PREMIUM,
    FutureFeed,
    OptionFeed,
)
from tardis_machine.sources.simulator.deribit.pricing import value_option
from tardis_machine.sources.simulator.deribit.symbols import (
    OptionName,
    default_symbols,
    parse_option,
    spell,
    years_until,
)
from tardis_machine.sources.simulator.feed import FeedOptions, MarketPlan
from tardis_machine.sources.simulator.prices import PriceGrid, derived_grid, start_price

__all__ = ["default_symbols", "open_feed", "spell"]

_GRIDS = {"BTC-PERPETUAL": PriceGrid(1, 5), "ETH-PERPETUAL": PriceGrid(2, 5)}
_FUTURE_CHANGES = (1,) * 44 + (2,) * 12 + (3,) * 5 + (6,) * 3
_OPTION_CHANGES = (1,) * 56 + (2,) * 8
_OPTION_ACTIVITY = 0.15
_COARSE_OPTION_PRICE = 0.005


def open_feed(symbol: str, options: FeedOptions) -> DeribitFeed:
    """Start the market of an option, a perpetual or a future."""
    option = parse_option(symbol)
    if option is None:
        return FutureFeed(_plan_future(symbol), options)
    return OptionFeed(_plan_option(symbol, option, options.start_second), options, option)


def _plan_future(symbol: str) -> MarketPlan:
    base = symbol.partition("-")[0].partition("_")[0]
    price = start_price(base)
    return MarketPlan(
        symbol=symbol,
        base=base,
        start_price=price,
        grid=_GRIDS.get(symbol) or derived_grid(price),
        depth=120,
        changes_per_event=_FUTURE_CHANGES,
    )


def _plan_option(symbol: str, option: OptionName, now_second: int) -> MarketPlan:
    base = option.underlying.partition("_")[0]
    forward = start_price(base) * FORWARD_PREMIUM
    years = years_until(option.expiry_second, now_second)
    price = value_option(forward, option.strike, years, is_call=option.is_call).price
    if option.is_linear:
        grid = derived_grid(max(price, forward / 10_000))
    else:
        price /= forward
        grid = PriceGrid(4, 5 if price >= _COARSE_OPTION_PRICE else 1)
    return MarketPlan(
        symbol=symbol,
        base=base,
        start_price=price,
        index_price=start_price(base),
        grid=grid,
        depth=12,
        changes_per_event=_OPTION_CHANGES,
        activity=_OPTION_ACTIVITY,
    )
