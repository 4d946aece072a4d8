"""Intervals of exchange time, counted in whole milliseconds since 1970 UTC."""

import math

from tardis_machine.model.time import ms_text, parse_us

_MS_CHARS = len("2024-03-01T00:00:00.000")


def ms_part(timestamp: str) -> str:
    """Cut a time text to milliseconds; such texts compare like the times they stand for."""
    return timestamp[:_MS_CHARS]


class Intervals:
    """Numbers the intervals of one length; a length of 0 makes a single one without end."""

    __slots__ = ("_end", "_length_ms", "_number", "_start")

    def __init__(self, length_ms: float) -> None:
        self._length_ms = length_ms
        # The interval of the last time asked for: the next one mostly lies in it too, and two
        # comparisons of text cost a fifth of reading a time.
        self._number = 0
        self._start = self._end = ""

    def number_of(self, timestamp: str) -> int:
        """Return the number of the interval that a time lies in."""
        if self._start <= timestamp[:_MS_CHARS] < self._end:
            return self._number
        if self._length_ms == 0:
            return 0
        self._number = math.floor(parse_us(timestamp) // 1000 / self._length_ms)
        if isinstance(self._length_ms, int):
            # The ends of fractional intervals lie between milliseconds.
            self._start = ms_part(ms_text(self._number * self._length_ms))
            self._end = ms_part(self.end_text(self._number))
        return self._number

    def end_text(self, number: int) -> str:
        """Write the end of an interval, with milliseconds."""
        return ms_text((number + 1) * self._length_ms)
