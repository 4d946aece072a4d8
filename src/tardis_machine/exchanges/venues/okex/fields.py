"""What both generations of the protocol share: levels, loose numbers, and what symbols tell."""

from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from tardis_machine.exchanges.numbers import LooseNumber
from tardis_machine.exchanges.spec import Symbols, channel_filters
from tardis_machine.model.numbers import optional_number
from tardis_machine.model.records import BookLevel, OptionType
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import DAY_US, days_from_civil, ms_text

EXPIRY_HOUR_MS = 8 * 3_600_000
"""Options expire at 08:00 UTC."""

OPTION_TYPES: dict[str, OptionType] = {"C": "call", "P": "put"}


class Level(Struct, array_like=True, gc=False):
    """Price and size of a level; what follows them in the array is not read."""

    price: float
    amount: float


def book_levels(levels: list[Level]) -> list[BookLevel]:
    """Return the levels as records have them."""
    return [BookLevel(level.price, level.amount) for level in levels]


def positive(value: LooseNumber) -> float | None:
    """Return a number above zero, or None: the venue sends zero where it has no value."""
    number = optional_number(value)
    return number if number is not None and number > 0 else None


def family_of(symbol: str) -> str:
    """Return the family of an instrument: `SOL-USD_UM` of `SOL-USD_UM-260618-67-C`."""
    return "-".join(symbol.split("-", 2)[:2])


@lru_cache(maxsize=8192)
def index_of(symbol: str) -> str:
    """Return the index of an instrument: `SOL-USD` of `SOL-USD_UM-260618-67-C`."""
    base, _, rest = symbol.partition("-")
    quote = rest.partition("-")[0].partition("_")[0]
    return f"{base}-{quote}"


def usd_index_of(symbol: str) -> str:
    """Return the index of an instrument, that of USD for USDC."""
    index = index_of(symbol)
    return index[:-1] if index.endswith("-USDC") else index


@lru_cache(maxsize=8192)
def parse_option(symbol: str) -> tuple[OptionType, float, str]:
    """Read type, strike and expiration from `BTC-USD-240628-60000-C`."""
    _, _, date, strike, letter = symbol.split("-")
    days = days_from_civil(2000 + int(date[:2]), int(date[2:4]), int(date[4:]))
    expiration_date = ms_text(days * (DAY_US // 1000) + EXPIRY_HOUR_MS)
    return OPTION_TYPES[letter], float(strike), expiration_date


def symbol_filters(
    *channels: str, convert: Callable[[str], str] = str
) -> Callable[[Symbols], list[Filter]]:
    """Build the filter function of channels that know symbols, or parts of them, in upper case."""
    return channel_filters(*channels, convert=lambda symbol: convert(symbol.upper()))
