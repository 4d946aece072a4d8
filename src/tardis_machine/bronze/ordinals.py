"""Positions of records that share everything else in their identity."""

from typing import TypeAlias

WINDOW = 128
"""How many of the latest local times are remembered: times rise but for rare steps of a clock."""

Counts: TypeAlias = dict[int, dict[str, int]]
"""By local time (µs) and label of a series: how many records there were."""


class Ordinals:
    """Counts the records of one stream per local time and series.

    At least the last `WINDOW` times are remembered and at most twice as many. Which ones depends on
    the records alone, never on how they were cut into chunks, so whoever reads a stream again gets
    the same ordinals.
    """

    __slots__ = ("older", "recent")

    def __init__(self, older: Counts | None = None, recent: Counts | None = None) -> None:
        self.older: Counts = {} if older is None else older
        self.recent: Counts = {} if recent is None else recent

    def at(self, local_us: int) -> dict[str, int]:
        """Return the counts of a local time, to be raised by whoever takes the next ordinal."""
        found = self.recent.get(local_us)
        if found is None:
            found = self.older.get(local_us)
            if found is None:
                found = {}
            if len(self.recent) >= WINDOW:
                self.older, self.recent = self.recent, {}
            self.recent[local_us] = found
        return found
