"""What a recorder hears on one exchange: all feeds in order of arrival, with lost connections."""

from bisect import bisect_left
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tardis_machine.sources.simulator.clock import UNITS_PER_MS, Second
from tardis_machine.sources.simulator.feed import SimulatedFeed

DISCONNECT_MARKER = "\n"
"""An empty line of a slice."""

SECONDS_PER_MINUTE = 60
GAP_EVERY_MINUTES = 3

_LONGEST_OUTAGE_SECONDS = 7


class Outage(NamedTuple):
    """A lost connection: the instant it breaks and the second it is back."""

    second: int
    offset_units: int
    back_second: int


class Minute(NamedTuple):
    """The slice content of one minute."""

    content: bytes
    messages: int
    disconnects: int


class Traffic:
    """Produce the minutes of one exchange, one after the other."""

    def __init__(
        self, feeds: Sequence[SimulatedFeed], start_second: int, gap_seed: str | None
    ) -> None:
        self._feeds = feeds
        self._second = start_second
        self._start_second = start_second
        self._gap_seed = gap_seed
        self._connect_second = start_second
        self._outage: Outage | None = None

    def next_minute(self) -> Minute:
        """Return the next minute; markets move on while the connection is down."""
        self._plan_outage()
        lines: list[str] = []
        for _ in range(SECONDS_PER_MINUTE):
            lines += self._hear(Second(self._second))
            self._second += 1
        disconnects = lines.count(DISCONNECT_MARKER)
        return Minute("".join(lines).encode(), len(lines) - disconnects, disconnects)

    def _plan_outage(self) -> None:
        minute = (self._second - self._start_second) // SECONDS_PER_MINUTE
        if self._gap_seed is None or minute % GAP_EVERY_MINUTES:
            return
        draw = Random(f"{self._gap_seed}/{minute}").randrange  # noqa: S311
        second = self._second + draw(10, SECONDS_PER_MINUTE)
        offset_units = draw(100, 900) * UNITS_PER_MS
        self._outage = Outage(second, offset_units, second + draw(1, _LONGEST_OUTAGE_SECONDS + 1))

    def _hear(self, clock: Second) -> list[str]:
        outage = self._outage
        if outage is not None and clock.index == outage.back_second:
            self._outage = outage = None
            self._connect_second = clock.index
        lines = self._run_feeds(clock)
        if outage is None or clock.index < outage.second:
            return lines
        if clock.index > outage.second:
            return []
        heard = bisect_left(lines, f"{clock.text}{outage.offset_units:07d}")
        return [*lines[:heard], DISCONNECT_MARKER]

    def _run_feeds(self, clock: Second) -> list[str]:
        is_connecting = clock.is_day_start or clock.index == self._connect_second
        lines: list[str] = []
        for feed in self._feeds:
            lines += feed.run_second(clock, is_connecting=is_connecting)
        # Lines start with their time and no feed repeats one, so text order is arrival order.
        lines.sort()
        return lines
