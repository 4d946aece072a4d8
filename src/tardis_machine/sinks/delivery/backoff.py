"""When to try again."""

import random
from collections.abc import Callable

CIRCUIT_FAILURES = 5
"""After so many failures in a row a bus is only probed."""

PARKED_FACTOR = 3
MAX_PARKED_SECONDS = 30.0
"""A destination that is missing or forbidden is tried less often than one that is busy."""

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

    def next(self, at_least: float = 0.0, *, is_parked: bool = False) -> float:
        """Return how long to wait after one more failure; longer where time alone heals nothing."""
        grown = self._initial * 2 ** min(self.failures, _LARGEST_EXPONENT)
        longest = min(self._max * PARKED_FACTOR, MAX_PARKED_SECONDS) if is_parked else self._max
        limit = min(longest, grown)
        self.failures += 1
        return max(at_least, self._draw(0.0, limit))

    def reset(self) -> None:
        """Start over, after a success."""
        self.failures = 0

    @property
    def is_circuit_open(self) -> bool:
        """Say whether so much failed in a row that one event at a time is enough."""
        return self.failures >= CIRCUIT_FAILURES
