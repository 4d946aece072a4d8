"""Where prices start, how they walk, and how a price level becomes wire text."""

import hashlib
from dataclasses import dataclass
from random import Random

START_PRICES = {
    "BTC": 61_200.0,
    "ETH": 3_350.0,
    "SOL": 128.0,
    "BNB": 402.0,
    "XRP": 0.59,
    "ADA": 0.65,
    "DOGE": 0.12,
    "LTC": 80.0,
    "LINK": 19.0,
    "AVAX": 42.0,
    "MATIC": 1.02,
}
"""Quote-currency prices at the start of a simulation, by base currency."""

_ALIASES = {"XBT": "BTC", "WBTC": "BTC"}
_DOLLARS = frozenset({"USD", "USDT", "USDC", "BUSD", "FDUSD", "EUR", "GBP"})

_CALM_MOVE = 1e-4
_BURST_MOVE = 2e-4
_CALM_INTENSITY = 0.73
_BURST_INTENSITY = 3.0
_BURST_ODDS_PER_SECOND = 1 / 60
_BURST_SECONDS = (4, 12)
_PULL_TO_START = 1e-5

MAX_TEXTS = 20_000
"""Texts that are remembered at once: markets that are played for weeks visit many prices."""


def start_price(base: str, quote: str = "USD") -> float:
    """Return the price a pair starts at; unknown currencies get one derived from their name."""
    price = _dollar_price(base)
    return price if quote in _DOLLARS else price / _dollar_price(quote)


def _dollar_price(currency: str) -> float:
    currency = _ALIASES.get(currency, currency)
    known = START_PRICES.get(currency)
    if known is not None:
        return known
    digest = int.from_bytes(hashlib.sha256(currency.encode()).digest()[:4], "big")
    return (100 + digest % 900) / 100 * 10.0 ** (digest % 4 - 1)


class IndexPath:
    """Walk the index price of one currency second by second, calm with directed bursts.

    The path depends on the seed and the currency alone, so every market of a currency follows
    the same index on every exchange, whatever else is simulated.
    """

    def __init__(self, seed: int, base: str) -> None:
        self._rng = Random(f"{seed}/index/{_ALIASES.get(base, base)}")  # noqa: S311
        self._burst_seconds_left = 0
        self._burst_move = 0.0
        self.factor = 1.0
        self.intensity = _CALM_INTENSITY

    def advance(self) -> None:
        """Move to the next second."""
        random = self._rng.random
        self._advance_burst()
        noise = (random() + random() - 1.0) * _CALM_MOVE
        pull = (1.0 - self.factor) * _PULL_TO_START
        self.factor *= 1.0 + noise + pull + self._burst_move

    def _advance_burst(self) -> None:
        random = self._rng.random
        if self._burst_seconds_left:
            self._burst_seconds_left -= 1
        elif random() < _BURST_ODDS_PER_SECOND:
            shortest, longest = _BURST_SECONDS
            self._burst_seconds_left = shortest + int(random() * (longest - shortest))
            self._burst_move = (random() * 2.0 - 1.0) * _BURST_MOVE
        if not self._burst_seconds_left:
            self._burst_move = 0.0
        self.intensity = _BURST_INTENSITY if self._burst_seconds_left else _CALM_INTENSITY


@dataclass(frozen=True)
class PriceGrid:
    """Number the price levels of a market and write their prices.

    A level spans `ticks_per_level` ticks. Its price sits at a fixed, irregular tick inside that
    span, so a fine-grained market has the sparse book that real ones have.
    """

    decimals: int
    tick_units: int
    ticks_per_level: int = 1

    def level(self, price: float) -> int:
        """Return the level that holds a price."""
        return int(price * 10**self.decimals / (self.tick_units * self.ticks_per_level))

    def units(self, level: int) -> int:
        """Return the price of a level in units of the last decimal."""
        inside = (level * 2_654_435_761 >> 7) % self.ticks_per_level
        return (level * self.ticks_per_level + inside) * self.tick_units

    def price(self, level: int) -> float:
        """Return the price of a level."""
        units_per_one: int = 10**self.decimals
        return self.units(level) / units_per_one


def derived_grid(price: float) -> PriceGrid:
    """Return a grid of about five significant digits for a market that is not known."""
    decimals = 1
    while price * 10**decimals < 20_000 and decimals < 10:
        decimals += 1
    return PriceGrid(decimals, 1, max(1, int(price * 10**decimals / 100_000)))


class FixedTexts(dict[int, str]):
    """Remember integers written as decimals with a fixed number of digits: 6120010 -> 61200.10."""

    def __init__(self, decimals: int) -> None:
        self._decimals = decimals

    def __missing__(self, units: int) -> str:
        if len(self) >= MAX_TEXTS:
            self.clear()
        text = self[units] = fixed_text(units, self._decimals)
        return text


class LevelTexts(dict[int, str]):
    """Remember the price text of each level."""

    def __init__(self, grid: PriceGrid, *, is_trimmed: bool) -> None:
        self._grid = grid
        self._is_trimmed = is_trimmed

    def __missing__(self, level: int) -> str:
        if len(self) >= MAX_TEXTS:
            self.clear()
        text = fixed_text(self._grid.units(level), self._grid.decimals)
        if self._is_trimmed and "." in text:
            text = text.rstrip("0").rstrip(".")
        self[level] = text
        return text


def fixed_text(units: int, decimals: int) -> str:
    """Write an integer of the last decimal's units as a decimal number."""
    if not decimals:
        return str(units)
    whole, rest = divmod(units, 10**decimals)
    return f"{whole}.{rest:0{decimals}d}"
