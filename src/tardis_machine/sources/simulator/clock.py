"""Simulated time: seconds, and the units inside them."""

from tardis_machine.model.time import SECOND_US, us_text

UNITS_PER_SECOND = 10_000_000
"""Local times have seven fractional digits; offsets inside a second count those units."""

UNITS_PER_MS = 10_000
UNITS_PER_US = 10

_SECONDS_PER_DAY = 86_400


class Second:
    """One second of simulated time, with the texts that its messages share."""

    __slots__ = ("index", "is_day_start", "ms", "previous_text", "text")

    def __init__(self, index: int) -> None:
        self.index = index
        self.ms = index * 1000
        self.text = us_text(index * SECOND_US)[:20]
        self.previous_text = us_text((index - 1) * SECOND_US)[:20]
        self.is_day_start = index % _SECONDS_PER_DAY == 0
