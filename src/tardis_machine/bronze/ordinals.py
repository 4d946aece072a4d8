"""Positions of records that share everything else in their identity."""

from collections.abc import Hashable


class Ordinals:
    """Counts the records of one stream per series and local time.

    Local times rise, so counts of the past are needed only for the rare step back of a clock. At
    least the last `capacity` keys are remembered and at most twice as many, whatever the chunks.
    """

    def __init__(self, capacity: int = 16_384) -> None:
        self._capacity = capacity
        self._recent: dict[Hashable, int] = {}
        self._older: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def next(self, key: Hashable) -> int:
        """Return how many records with this key came before."""
        ordinal = self._recent.get(key)
        if ordinal is None:
            ordinal = self._older.get(key, -1)
            if len(self._recent) >= self._capacity:
                self._older, self._recent = self._recent, {}
        self._recent[key] = ordinal = ordinal + 1
        return ordinal
