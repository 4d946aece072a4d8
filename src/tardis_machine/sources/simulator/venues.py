"""The exchanges that can be simulated."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from tardis_machine.model.errors import UnknownNameError
from tardis_machine.sources.simulator import bitmex, coinbase, deribit, kraken, okex_swap
from tardis_machine.sources.simulator.binance import futures, spot
from tardis_machine.sources.simulator.feed import FeedOptions, SimulatedFeed


@dataclass(frozen=True)
class Venue:
    """How to simulate one exchange."""

    open_feed: Callable[[str, FeedOptions], SimulatedFeed]
    spell: Callable[[str], str]
    """Writes a symbol as the venue does."""

    default_symbols: Callable[[int], tuple[str, ...]]
    """Names the symbols to simulate from a start time in microseconds."""


VENUES = MappingProxyType(
    {
        "bitmex": Venue(bitmex.open_feed, str.upper, lambda _: ("XBTUSD", "ETHUSD")),
        "binance-futures": Venue(futures.open_feed, str.lower, lambda _: ("btcusdt", "ethusdt")),
        "deribit": Venue(deribit.open_feed, deribit.spell, deribit.default_symbols),
        "binance": Venue(spot.open_feed, str.lower, lambda _: ("btcusdt", "ethusdt")),
        "coinbase": Venue(coinbase.open_feed, str.upper, lambda _: ("BTC-USD", "ETH-USD")),
        "okex-swap": Venue(
            okex_swap.open_feed, str.upper, lambda _: ("BTC-USDT-SWAP", "ETH-USDT-SWAP")
        ),
        "kraken": Venue(kraken.open_feed, str.upper, lambda _: ("BTC/USD", "ETH/USD")),
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
