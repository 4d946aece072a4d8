"""The exchanges that can be simulated."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from tardis_machine.model.errors import UnknownNameError
from tardis_machine.sources.simulator import binance_futures, bitmex
from tardis_machine.sources.simulator.feed import Feed, FeedOptions, MarketPlan


@dataclass(frozen=True)
class Venue:
    """How to simulate one exchange."""

    feed: Callable[[MarketPlan, FeedOptions], Feed]
    plan: Callable[[str], MarketPlan]
    spell: Callable[[str], str]
    default_symbols: Callable[[int], tuple[str, ...]]


VENUES = MappingProxyType(
    {
        "bitmex": Venue(bitmex.BitmexFeed, bitmex.plan, str.upper, lambda _: ("XBTUSD", "ETHUSD")),
        "binance-futures": Venue(
            binance_futures.BinanceFuturesFeed,
            binance_futures.plan,
            str.lower,
            lambda _: ("btcusdt", "ethusdt"),
        ),
    }
)
"""Exchange id -> how to simulate it."""


def find_venue(exchange: str) -> Venue:
    """Return the venue of an exchange, or say which ones can be simulated."""
    venue = VENUES.get(exchange)
    if venue is None:
        raise UnknownNameError("exchange", exchange, tuple(VENUES))
    return venue


def choose_symbols(exchange: str, asked: tuple[str, ...], start_us: int) -> tuple[str, ...]:
    """Return the symbols to simulate, in the venue's spelling.

    `asked` holds symbols for every exchange, or for one as `exchange:symbol`.
    """
    venue = find_venue(exchange)
    chosen = []
    for text in asked:
        owner, _, symbol = text.rpartition(":")
        if owner:
            find_venue(owner)
        if owner in ("", exchange):
            chosen.append(venue.spell(symbol))
    return tuple(dict.fromkeys(chosen)) or venue.default_symbols(start_us)
