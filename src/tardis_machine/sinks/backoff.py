"""When to try again."""

import random
from collections.abc import Callable

CIRCUIT_FAILURES = 5
"""After so many failures in a row a bus is only probed."""

TARGET_SECONDS = 30.0
"""Longest pause for a destination that is missing or forbidden."""

_LARGEST_EXPONENT = 32


class Backoff:
    """Pauses that double up to a limit, each drawn from its whole range ("full jitter")."""

    def __init__(
        self,
        initial_seconds: float,
        max_seconds: float,
        draw: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._initial = initial_seconds
        self._max = max_seconds
        self._draw = draw
        self.failures = 0

    def next(self, at_least: float = 0.0, max_seconds: float | None = None) -> float:
        """Return how long to wait after one more failure; `max_seconds` replaces the limit."""
        limit = min(
            max_seconds or self._max, self._initial * 2 ** min(self.failures, _LARGEST_EXPONENT)
        )
        self.failures += 1
        return max(at_least, self._draw(0.0, limit))

    def reset(self) -> None:
        """Start over, after a success."""
        self.failures = 0

    @property
    def is_circuit_open(self) -> bool:
        """Say whether so much failed in a row that one event at a time is enough."""
        return self.failures >= CIRCUIT_FAILURES
