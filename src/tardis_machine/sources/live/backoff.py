"""How long to wait before the next connection."""

from collections.abc import Callable

LONGEST_SECONDS = 32.0
FIRST_FAILURE_SECONDS = 1.0
FIRST_CLOSE_SECONDS = 0.1
"""After an orderly close the next connection follows almost at once, unless they follow each
other: a server that accepts and closes must not be asked in a loop."""

STABLE_SECONDS = 30.0
"""A connection that lived for this long ends the series of failures before it."""


class Backoff:
    """Counts connections that ended soon; each makes the next one wait longer, up to a limit."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._short_lives = 0

    def after_failure(self, lived_seconds: float, wait_seconds: float | None = None) -> float:
        """Return the delay after an error; the exchange may ask for a longer one."""
        return max(self._delay(FIRST_FAILURE_SECONDS, lived_seconds), wait_seconds or 0.0)

    def after_close(self, lived_seconds: float) -> float:
        """Return the delay after a close."""
        return self._delay(FIRST_CLOSE_SECONDS, lived_seconds)

    def _delay(self, first_seconds: float, lived_seconds: float) -> float:
        if lived_seconds >= STABLE_SECONDS:
            self._short_lives = 0
        # The exponent is bounded: a feed may fail for weeks.
        delay = first_seconds * 2.0 ** min(self._short_lives, 10)
        self._short_lives += 1
        return min(delay, LONGEST_SECONDS) * (0.5 + self._random() / 2)
