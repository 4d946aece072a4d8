"""Time as integer microseconds since 1970 UTC, and its text on the wire.

Records carry times as text, with three fractional digits (milliseconds) or six (microseconds):
the digit count is part of the normalized contract. `..._text` functions write such text.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from math import floor
from typing import TypeAlias

from tardis_machine.model.compiled import compiled_module

Clock: TypeAlias = Callable[[], int]
"""Returns now in microseconds since 1970 UTC."""

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
DAY_US = 86_400 * SECOND_US

_MAX_SECONDS = 8192
"""Seconds whose text is remembered."""

_THREE_DIGITS = tuple(f"{rest:03d}" for rest in range(1000))
_LAST_DIGITS = tuple(f"{digits}Z" for digits in _THREE_DIGITS)

_WIRE = re.compile(
    r"([+-]\d{6}|\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|\+00:00)", re.ASCII
)
_DATE_ARGUMENT = re.compile(
    r"(?:(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?|(\d{1,2})/(\d{1,2})/(\d{4}))"
    r"(?:[Tt ]+(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
    r" *([Zz]|UTC|GMT|[+-]\d\d:?\d\d)?",
    re.ASCII,
)


def days_from_civil(year: int, month: int, day: int) -> int:
    """Count the days from 1970-01-01 in the proleptic Gregorian calendar; days may roll over."""
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return (
        era * 146_097
        + year_of_era * 365
        + year_of_era // 4
        - year_of_era // 100
        + (day_of_year - 719_468)
    )


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a count of days since 1970-01-01."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return (
        year_of_era + era * 400 + (month <= 2),
        month,
        day_of_year - (153 * shifted + 2) // 5 + 1,
    )


class _SecondTexts(dict[int, str]):
    """Whole seconds as `2024-03-01T00:00:00.`; neighbours in time share them."""

    def __missing__(self, second: int) -> str:
        days, rest = divmod(second, 86_400)
        year, month, day = civil_from_days(days)
        year_text = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+07d}"
        text = (
            f"{year_text}-{month:02d}-{day:02d}"
            f"T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}."
        )
        if len(self) >= _MAX_SECONDS:
            self.clear()
        self[second] = text
        return text


_second_texts = _SecondTexts()


@lru_cache(maxsize=8192)
def _second_us(text: str) -> int:
    """Parse `2024-03-01T00:00:00` to microseconds."""
    days = days_from_civil(int(text[:4]), int(text[5:7]), int(text[8:10]))
    seconds = int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
    return (days * 86_400 + seconds) * SECOND_US


def _ms_text(milliseconds: float) -> str:
    """Write epoch milliseconds with three fractional digits; a fraction of one is cut."""
    whole = int(milliseconds)
    return _second_texts[whole // 1000] + _LAST_DIGITS[whole % 1000]


def us_text(microseconds: float) -> str:
    """Write epoch microseconds with six fractional digits."""
    second, rest = divmod(int(microseconds), SECOND_US)
    return f"{_second_texts[second]}{rest:06d}Z"


def ns_text(nanoseconds: int) -> str:
    """Write epoch nanoseconds with six fractional digits; the rest is cut."""
    second, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_second_texts[second]}{rest // 1000:06d}Z"


def sec_us_text(seconds: float) -> str:
    """Write epoch seconds with six fractional digits.

    Milliseconds and the digits below them come from two products of doubles, as the reference
    computes them: with more than six digits they may be rounded apart.
    """
    second, rest = divmod(int(seconds * 1000), 1000)
    below = floor(seconds * 1_000_000) % 1000
    return f"{_second_texts[second]}{_THREE_DIGITS[rest]}{_LAST_DIGITS[below]}"


def _auto_text(value: float) -> str:
    """Write an epoch number: microseconds when it is above 1e15, milliseconds otherwise."""
    if value > 1e15:
        return us_text(value)
    # `ms_text` written out: this runs for most messages.
    whole = int(value)
    return _second_texts[whole // 1000] + _LAST_DIGITS[whole % 1000]


_compiled = compiled_module("tardis_machine.model.compiled_time")
ms_text = _ms_text if _compiled is None else _compiled.ms_texts(_ms_text)
auto_text = _auto_text if _compiled is None else _compiled.auto_texts(_auto_text)


def parse_us(text: str) -> int:
    """Parse UTC text as written on the wire (or by a venue) to microseconds; digits beyond cut."""
    if len(text) in (24, 27) and text[10] == "T" and text[19] == "." and text[-1] == "Z":
        return _second_us(text[:19]) + int(text[20:-1]) * (1000 if len(text) == 24 else 1)
    match = _WIRE.fullmatch(text)
    if not match:
        raise ValueError(f"not a UTC time: {text!r}")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    days = days_from_civil(year, month, day)
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * SECOND_US + int((match[7] or "")[:6].ljust(6, "0"))


def _iso_text(text: str) -> str:
    """Cut a venue's ISO time to milliseconds."""
    if len(text) == 24 and text[19] == "." and text[-1] == "Z" and text[10] == "T":
        return text
    return ms_text(parse_us(text) // 1000)


def _iso_us_text(text: str) -> str:
    """Keep a venue's ISO time with six digits.

    Microseconds are only read where the reference reads them: digits 23 to 25 of a text that is
    27, 28, 30 or 32 characters long. Other lengths count as whole milliseconds.
    """
    if len(text) == 27 and text[-1] == "Z" and text[19] == ".":
        return text
    micros = text[23:26] if len(text) in (27, 28, 30, 32) else "000"
    return f"{_iso_text(text)[:23]}{micros}Z"


iso_text = _iso_text if _compiled is None else _compiled.iso_texts(_iso_text)
iso_us_text = _iso_us_text if _compiled is None else _compiled.iso_us_texts(_iso_us_text)


def fraction_digits(text: str) -> int:
    """Return how many fractional digits wire text carries: 3 or 6."""
    return 3 if len(text) == 24 else 6


def parse_instant(text: str) -> int | None:
    """Read a date argument (`2019-06-01`, `2019-06-01 00:05`, …) to microseconds, or None.

    Lenient as the API has always been: short months, days that roll over, `24:00`. Text without
    an offset is UTC; an explicit one is honoured.
    """
    match = _DATE_ARGUMENT.fullmatch(text.strip())
    if not match:
        return None
    year, month, day, us_month, us_day, us_year = (int(part or 0) for part in match.groups()[:6])
    if us_year:
        year, month, day = us_year, us_month, us_day
    hour, minute, second = (int(part or 0) for part in match.groups()[6:9])
    is_midnight_of_next_day = hour == 24 and minute == second == 0
    if not (0 <= (month or 1) - 1 < 12 and 1 <= (day or 1) <= 31 and minute < 60 and second < 60):
        return None
    if hour > 23 and not is_midnight_of_next_day:
        return None
    seconds = days_from_civil(year, month or 1, day or 1) * 86_400
    seconds += hour * 3600 + minute * 60 + second - _offset_seconds(match[11])
    return seconds * SECOND_US + int((match[10] or "")[:6].ljust(6, "0"))


def _offset_seconds(zone: str | None) -> int:
    """Return the seconds east of UTC of `+02:00` and the like."""
    if not zone or zone[0] not in "+-":
        return 0
    seconds = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
    return -seconds if zone[0] == "-" else seconds


def floor_minute(us: int) -> int:
    """Return the start of the minute."""
    return us - us % MINUTE_US
