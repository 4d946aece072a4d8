"""What both generations of the protocol share: loose numbers, and what symbols tell."""

from collections.abc import Callable
from functools import lru_cache

from tardis_machine.exchanges.instruments.symbols import expiry_text
from tardis_machine.exchanges.numbers import LooseNumber
from tardis_machine.exchanges.spec import Symbols, channel_filters
from tardis_machine.model.numbers import optional_number
from tardis_machine.model.records import OptionType
from tardis_machine.model.requests import Filter

OPTION_TYPES: dict[str, OptionType] = {"C": "call", "P": "put"}


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
    return OPTION_TYPES[letter], float(strike), expiry_text(date)


def symbol_filters(
    *channels: str, convert: Callable[[str], str] = str
) -> Callable[[Symbols], list[Filter]]:
    """Build the filter function of channels that know symbols, or parts of them, in upper case."""
    return channel_filters(*channels, convert=lambda symbol: convert(symbol.upper()))
