"""Intervals of exchange time, counted in whole milliseconds since 1970 UTC."""

import math

from tardis_machine.model.time import ms_text, parse_us

MS_CHARS = len("2024-03-01T00:00:00.000")
"""Of a time, up to its milliseconds."""


def ms_part(timestamp: str) -> str:
    """Cut a time text to milliseconds; such texts compare like the times they stand for."""
    return timestamp[:MS_CHARS]


class Intervals:
    """Numbers the intervals of one length; a length of 0 makes a single one without end."""

    __slots__ = ("_length_ms", "_number", "end", "start")

    def __init__(self, length_ms: float) -> None:
        self._length_ms = length_ms
        self._number = 0
        self.start = self.end = ""
        """Of the interval of the last time asked for, as `ms_part` writes it, if that is known.

        The next time mostly lies in it too, and to compare texts costs a fifth of reading a time.
        """

    def number_of(self, timestamp: str) -> int:
        """Return the number of the interval that a time lies in."""
        if self.start <= timestamp[:MS_CHARS] < self.end:
            return self._number
        if self._length_ms == 0:
            return 0
        self._number = math.floor(parse_us(timestamp) // 1000 / self._length_ms)
        if isinstance(self._length_ms, int):
            # The ends of fractional intervals lie between milliseconds.
            self.start = ms_part(ms_text(self._number * self._length_ms))
            self.end = ms_part(self.end_text(self._number))
        return self._number

    def end_text(self, number: int) -> str:
        """Write the end of an interval, with milliseconds."""
        return ms_text((number + 1) * self._length_ms)
