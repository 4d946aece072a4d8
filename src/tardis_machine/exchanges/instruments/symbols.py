"""Parts of symbols: currencies, pairs and dates."""

import re
from collections.abc import Sequence
from typing import Any

from tardis_machine.exchanges.instruments.spec import Instrument, Kind
from tardis_machine.model.time import DAY_US, days_from_civil, ms_text

HOUR_US = DAY_US // 24
EXPIRY_HOUR = 8
"""Hour, UTC, at which contracts of most exchanges expire."""

MONTH_CODES = "FGHJKMNQUVXZ"
"""Letters of January to December in the symbols of futures."""

_FRIDAY, _DAYS = 4, 7

_ALIASES = {"XBT": "BTC", "XDG": "DOGE"}
_MULTIPLIED = re.compile(r"(?P<multiplier>10{3,6})(?P<base>[A-Z].*)")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAY_MONTH_YEAR = re.compile(r"(\d{1,2})([A-Z]{3})(\d{2})")
_YEAR_MONTH_DAY = re.compile(r"(\d{2})(\d{2})(\d{2})")


def currency(text: str) -> str:
    """Return a currency under the name that most exchanges use."""
    return _ALIASES.get(text, text)


def pair(base: str, quote: str, kind: Kind, **facts: Any) -> Instrument:
    """Return an instrument of two currencies as an exchange writes them."""
    found = _MULTIPLIED.fullmatch(base)
    if found is not None:
        base, facts["multiplier"] = found["base"], int(found["multiplier"])
    return Instrument(base=currency(base), quote=currency(quote), kind=kind, **facts)


def split(text: str, quotes: Sequence[str]) -> tuple[str, str] | None:
    """Split a pair without a separator at the longest of some quote currencies."""
    for quote in sorted(quotes, key=len, reverse=True):
        if text.endswith(quote) and text != quote:
            return text.removesuffix(quote), quote
    return None


def expiry_us(text: str) -> int | None:
    """Read the day of an expiry, `240329` or `29MAR24`."""
    if found := _YEAR_MONTH_DAY.fullmatch(text):
        year, month, day = map(int, found.groups())
    elif (found := _DAY_MONTH_YEAR.fullmatch(text)) and found[2] in _MONTHS:
        year, month, day = int(found[3]), _MONTHS.index(found[2]) + 1, int(found[1])
    else:
        return None
    return days_from_civil(2000 + year, month, day) * DAY_US + EXPIRY_HOUR * HOUR_US


def last_friday_us(year: int, month: int, hour: int) -> int:
    """Return an hour, UTC, of the last Friday of a month."""
    next_month = days_from_civil(year + month // 12, month % 12 + 1, 1)
    last = next_month - 1
    # 1970-01-01 was a Thursday, the fourth day of a week that starts with 0.
    weekday = (last + 3) % _DAYS
    return (last - (weekday - _FRIDAY) % _DAYS) * DAY_US + hour * HOUR_US


def expiry_text(text: str) -> str:
    """Write when contracts of such a day expire.

    Raises:
        ValueError: the text names no day.
    """
    instant_us = expiry_us(text)
    if instant_us is None:
        raise ValueError(f"{text!r} is not the day of an expiry.")
    return ms_text(instant_us // 1000)
