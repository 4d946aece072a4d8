"""The clock of the exchanges, and what plays their markets by it."""

import asyncio
import heapq
import time
from collections.abc import Callable, Iterable
from typing import Any

from tardis_machine.server.exchange.markets import LiveMarket
from tardis_machine.sources.simulator.clock import UNITS_PER_SECOND, UNITS_PER_US

_STEPS_AT_ONCE = 500
"""Events played before clients get their turn, also when the machine is too slow."""

_SHORTEST_WAIT_SECONDS = 0.001
"""Messages of this time share one write."""


class MarketClock:
    """Maps the time that passes here to the time of the exchanges."""

    def __init__(
        self, start_us: int, speed: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._start_units = start_us * UNITS_PER_US
        self._monotonic = monotonic
        self._started = monotonic()
        self._units_per_second = speed * UNITS_PER_SECOND

    def passed_seconds(self) -> float:
        """Return how many real seconds have passed since the start, whatever the speed."""
        return self._monotonic() - self._started

    def units(self) -> int:
        """Return the time of the exchanges in units of 100 nanoseconds since 1970."""
        return self._start_units + int(self.passed_seconds() * self._units_per_second)

    def us(self) -> int:
        """Return the time of the exchanges in microseconds since 1970."""
        return self.units() // UNITS_PER_US

    def seconds_until(self, units: int) -> float:
        """Return how long it takes here until that time of the exchanges."""
        return (units - self.units()) / self._units_per_second


class Player:
    """Plays all markets in order of time; `deliver` is called after every few events."""

    def __init__(
        self,
        markets: Iterable[LiveMarket[Any]],
        clock: MarketClock,
        deliver: Callable[[], None],
    ) -> None:
        self._markets = list(markets)
        self._clock = clock
        self._deliver = deliver
        self._due = [(market.start_units, index) for index, market in enumerate(self._markets)]
        heapq.heapify(self._due)

    @property
    def behind_seconds(self) -> float:
        """Return how late the next event is: more than a moment when the machine is too slow."""
        return max(0.0, -self._clock.seconds_until(self._due[0][0]))

    async def run(self) -> None:
        """Play until cancelled."""
        while True:
            self._play_due()
            self._deliver()
            wait = self._clock.seconds_until(self._due[0][0])
            await asyncio.sleep(max(wait, _SHORTEST_WAIT_SECONDS) if wait > 0 else 0)

    def _play_due(self) -> None:
        now = self._clock.units()
        for _ in range(_STEPS_AT_ONCE):
            units, index = self._due[0]
            if units > now:
                return
            heapq.heapreplace(self._due, (self._markets[index].play_next(), index))
