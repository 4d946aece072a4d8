"""Events that failed, held up per key until their time comes.

A lane exists only for a key in trouble: events of all others never touch it. While a key has a
lane, its newer events queue up behind the failed ones, so that its order is kept.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import TypeAlias

from tardis_machine.sinks.base import Event, event_bytes
from tardis_machine.sinks.delivery.backoff import Backoff

LaneKey: TypeAlias = object
KeyOf: TypeAlias = Callable[[Event], LaneKey]


def key_of_event(*, ordering: str, keeps_order: bool) -> KeyOf:
    """Return what decides which events hold up one another."""
    if ordering == "none":
        return lambda event: event.delivery_id
    if keeps_order:
        return lambda event: event.route.destination
    return lambda event: (event.route.destination, event.route.key)


class Lane:
    """Waiting events of one key."""

    __slots__ = ("backoff", "events", "failed_at", "ready_at")

    def __init__(self, backoff: Backoff, now: float) -> None:
        self.events: deque[Event] = deque()
        self.backoff = backoff
        self.failed_at = now
        """When its trouble began."""
        self.ready_at = 0.0


class Retries:
    """All lanes of one bus."""

    def __init__(self, key_of: KeyOf, make_backoff: Callable[[], Backoff]) -> None:
        self._key_of = key_of
        self._make_backoff = make_backoff
        self._lanes: dict[LaneKey, Lane] = {}
        self.events = 0

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[Event]:
        return (event for lane in self._lanes.values() for event in lane.events)

    @property
    def next_ready_at(self) -> float | None:
        """Return when the first lane may be tried again."""
        return min((lane.ready_at for lane in self._lanes.values() if lane.events), default=None)

    def hold(
        self, events: Sequence[Event], now: float, at_least: float = 0.0, *, has_failed: bool = True
    ) -> None:
        """Put events of one key back at the head of its lane, and begin its pause.

        The pause grows with every failure; events that did not fail wait for `at_least`.
        """
        key = self._key_of(events[0])
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(self._make_backoff(), now)
        lane.events.extendleft(reversed(events))
        self.events += len(events)
        lane.ready_at = now + (lane.backoff.next(at_least) if has_failed else at_least)

    def has_ready(self, now: float) -> bool:
        """Say whether events wait whose pause is over."""
        ready_at = self.next_ready_at
        return ready_at is not None and ready_at <= now

    def divert(self, events: Iterable[Event], now: float) -> list[Event]:
        """Queue up events of keys in trouble; return the others.

        Where the last events of a key are being tried again, newer ones may go with them.
        """
        free = []
        for event in events:
            lane = self._lanes.get(self._key_of(event))
            if lane is None or (not lane.events and lane.ready_at <= now):
                free.append(event)
            else:
                lane.events.append(event)
                self.events += 1
        return free

    def take_ready(self, now: float, max_events: int, max_bytes: int) -> list[Event]:
        """Take events of lanes whose pause is over, the lanes in turn."""
        taken: list[Event] = []
        room = max_bytes
        for key, lane in list(self._lanes.items()):
            if lane.ready_at > now or not lane.events:
                continue
            # Served lanes go to the end of the line.
            self._lanes[key] = self._lanes.pop(key)
            while lane.events and len(taken) < max_events:
                size = event_bytes(lane.events[0])
                if size > room and taken:
                    self.events -= len(taken)
                    return taken
                room -= size
                taken.append(lane.events.popleft())
            if len(taken) >= max_events:
                break
        self.events -= len(taken)
        return taken

    def settle(self, events: Iterable[Event]) -> None:
        """Note that events were delivered or parked; a lane with nothing left ends."""
        for key in {self._key_of(event) for event in events}:
            lane = self._lanes.get(key)
            if lane is None:
                continue
            lane.backoff.reset()
            lane.ready_at = 0.0
            if not lane.events:
                del self._lanes[key]

    def discard_empty(self) -> None:
        """End lanes whose last event was given up."""
        for key in [key for key, lane in self._lanes.items() if not lane.events]:
            del self._lanes[key]

    def take(self, is_taken: Callable[[Event], bool]) -> list[Event]:
        """Take certain events out of their lanes; lanes without any end."""
        taken: list[Event] = []
        for lane in self._lanes.values():
            chosen = [event for event in lane.events if is_taken(event)]
            if chosen:
                taken += chosen
                lane.events = deque(event for event in lane.events if not is_taken(event))
        self.events -= len(taken)
        if taken:
            self.discard_empty()
        return taken

    def stuck_destinations(self, delivered_at: Mapping[str, float]) -> set[str]:
        """Return the destinations whose trouble began before another one took events."""
        newest = nlargest(2, delivered_at.items(), key=itemgetter(1))
        stuck = set()
        for lane in self._lanes.values():
            if not lane.events:
                continue
            destination = lane.events[0].route.destination
            others_at = next((at for name, at in newest if name != destination), 0.0)
            if lane.failed_at < others_at:
                stuck.add(destination)
        return stuck

    def wake(self) -> None:
        """Let every lane be tried now."""
        for lane in self._lanes.values():
            lane.ready_at = 0.0
