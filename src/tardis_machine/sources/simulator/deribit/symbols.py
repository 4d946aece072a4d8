"""Names of Deribit instruments: what they say, how they are spelled, which to simulate."""

import re
from dataclasses import dataclass

from tardis_machine.model.time import DAY_US, SECOND_US, civil_from_days, days_from_civil

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_OPTION = re.compile(
    r"(?P<underlying>[A-Z0-9_]+)-(?P<day>\d{1,2})(?P<month>[A-Z]{3})(?P<year>\d\d)"
    r"-(?P<strike>\d+(?:d\d+)?)-(?P<kind>[CP])",
    re.ASCII,
)
_EXPIRY_HOUR_SECONDS = 8 * 3600
_EARLIEST_EXPIRY_DAYS = 14
_FRIDAY = 4


@dataclass(frozen=True)
class OptionName:
    """What the name of an option says."""

    underlying: str
    expiry_text: str
    expiry_second: int
    strike: float
    is_call: bool

    @property
    def is_linear(self) -> bool:
        """Say whether the price is in the quote currency rather than in the underlying."""
        return "_" in self.underlying


def parse_option(symbol: str) -> OptionName | None:
    """Read an option name such as BTC-29MAR24-60000-C; None for every other instrument."""
    match = _OPTION.fullmatch(symbol)
    if not match or match["month"] not in _MONTHS:
        return None
    month = _MONTHS.index(match["month"]) + 1
    days = days_from_civil(2000 + int(match["year"]), month, int(match["day"]))
    return OptionName(
        underlying=match["underlying"],
        expiry_text=f"{match['day']}{match['month']}{match['year']}",
        expiry_second=days * 86_400 + _EXPIRY_HOUR_SECONDS,
        strike=float(match["strike"].replace("d", ".")),
        is_call=match["kind"] == "C",
    )


def spell(symbol: str) -> str:
    """Write a symbol in the venue's case: upper, but d as the decimal point of a strike."""
    upper = symbol.upper()
    return re.sub(r"(?<=-\d)(\d*)D(?=\d+-[CP]$)", r"\1d", upper, flags=re.ASCII)


def default_symbols(start_us: int) -> tuple[str, ...]:
    """Return the perpetual and some options of the first monthly expiry two weeks ahead."""
    expiry = _monthly_expiry(start_us // DAY_US + _EARLIEST_EXPIRY_DAYS)
    options = ("55000-P", "60000-C", "60000-P", "65000-C")
    return ("BTC-PERPETUAL", *(f"BTC-{expiry}-{option}" for option in options))


def _monthly_expiry(earliest_day: int) -> str:
    year, month, _ = civil_from_days(earliest_day)
    day = _last_friday(year, month)
    if day < earliest_day:
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        day = _last_friday(year, month)
    return f"{civil_from_days(day)[2]}{_MONTHS[month - 1]}{year % 100:02d}"


def _last_friday(year: int, month: int) -> int:
    next_year, next_month = (year, month + 1) if month < 12 else (year + 1, 1)
    last_day = days_from_civil(next_year, next_month, 1) - 1
    weekday = (last_day + 3) % 7  # 1970-01-01 was a Thursday
    return last_day - (weekday - _FRIDAY) % 7


def years_until(expiry_second: int, now_second: int) -> float:
    """Return the time to an expiry in years of 365 days."""
    return (expiry_second - now_second) * SECOND_US / DAY_US / 365
