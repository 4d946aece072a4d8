"""Funding of perpetual contracts: when it is due and at which rate."""

from random import Random

_INTERVAL_SECONDS = 8 * 3600
_RATE_UNIT = 1e-6


class Funding:
    """Know the funding times and rates of one contract; the times are eight hours apart."""

    def __init__(self, seed: int, contract: str, *, first_hour: int = 0) -> None:
        self._key = f"{seed}/funding/{contract}"
        self._shift_seconds = first_hour * 3600
        self._rates: dict[int, float] = {}

    def next_second(self, second: int) -> int:
        """Return the epoch second of the next funding after `second`."""
        return (self._window(second) + 1) * _INTERVAL_SECONDS + self._shift_seconds

    def rate(self, second: int) -> float:
        """Return the rate that is paid at the next funding."""
        return self._window_rate(self._window(second))

    def predicted_rate(self, second: int) -> float:
        """Return the rate expected for the funding after the next, which settles over time."""
        window = self._window(second)
        done = (second - self._shift_seconds) % _INTERVAL_SECONDS / _INTERVAL_SECONDS
        blended = self._window_rate(window) * (1 - done) + self._window_rate(window + 1) * done
        return round(blended, 6)

    def _window(self, second: int) -> int:
        return (second - self._shift_seconds) // _INTERVAL_SECONDS

    def _window_rate(self, window: int) -> float:
        rate = self._rates.get(window)
        if rate is None:
            draw = Random(f"{self._key}/{window}").randrange(-150, 400)  # noqa: S311
            rate = self._rates[window] = round(draw * _RATE_UNIT, 6)
        return rate
