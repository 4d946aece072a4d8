"""Records that failed while later ones of their key were stored.

They go again by themselves. In one call with newer records they could fail again while those are
stored, and fall behind by another call each time.
"""

from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import TypeAlias

from tardis_machine.sinks.base import Event

Key: TypeAlias = tuple[str, str]

_MOST_KEYS = 10_000
"""Of keys whose events were given up elsewhere, nothing comes back."""


class Leftovers:
    """The delivery ids of failed events, by key."""

    def __init__(self) -> None:
        self._ids: dict[Key, set[str]] = {}

    def leading(self, events: Sequence[Event]) -> int:
        """Return how many events of one key failed before, counted from its first."""
        ids = self._ids.get(key_of(events[0]))
        if not ids:
            return 0
        return sum(1 for _ in takewhile(lambda event: event.delivery_id in ids, events))

    def note(self, events: Sequence[Event], failed: Collection[int]) -> None:
        """Take note of a batch, of which the events at some places failed.

        It may hold a part of what failed before; the rest comes with the next one.
        """
        if self._ids:
            for event in events:
                self._drop(event)
        for place in failed:
            event = events[place]
            self._ids.setdefault(key_of(event), set()).add(event.delivery_id)
        while len(self._ids) > _MOST_KEYS:
            del self._ids[next(iter(self._ids))]

    def _drop(self, event: Event) -> None:
        key = key_of(event)
        ids = self._ids.get(key)
        if ids is not None:
            ids.discard(event.delivery_id)
            if not ids:
                del self._ids[key]


def key_of(event: Event) -> Key:
    """Return what events must share to be kept in order."""
    return event.route.destination, event.route.key
