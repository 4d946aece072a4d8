"""Records that failed while later ones of their key were stored.

They go again by themselves. In one call with newer records they could fail again while those are
stored, and fall behind by another call each time.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from tardis_machine.sinks.base import Event

Key: TypeAlias = tuple[str, str]

_MOST_KEYS = 10_000
"""Keys whose events were given up elsewhere never come back."""


class Leftovers:
    """The delivery ids of failed events, by key."""

    def __init__(self) -> None:
        self._ids: dict[Key, set[str]] = {}

    def leading(self, events: Iterable[Event]) -> int:
        """Return how many events of one key failed before, counted from its first."""
        count = 0
        for event in events:
            if event.delivery_id not in self._ids.get(key_of(event), ()):
                break
            count += 1
        return count

    def note(self, events: Sequence[Event], failed: Collection[int]) -> None:
        """Take note of a batch, of which the events at some places failed."""
        if self._ids:
            for key in {key_of(event) for event in events}:
                self._ids.pop(key, None)
        for place in failed:
            event = events[place]
            self._ids.setdefault(key_of(event), set()).add(event.delivery_id)
        while len(self._ids) > _MOST_KEYS:
            del self._ids[next(iter(self._ids))]


def key_of(event: Event) -> Key:
    """Return what events must share to be kept in order."""
    return event.route.destination, event.route.key
