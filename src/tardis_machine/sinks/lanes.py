"""Events that failed, held up per key until their time comes.

Lanes exist only for keys in trouble: events of all others never touch them. While a key has a lane,
its newer events queue up behind the failed ones, so that its order is kept.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from tardis_machine.sinks.backoff import Backoff
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.fifo import CONTROL_CASES, Entry, event_bytes

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

    __slots__ = ("backoff", "entries", "is_misdirected", "ready_at", "shelved")

    def __init__(self, backoff: Backoff) -> None:
        self.entries: deque[Entry] = deque()
        self.backoff = backoff
        self.ready_at = 0.0
        self.is_misdirected = False
        """The destination is missing or forbidden."""
        self.shelved = 0
        """Events on disk, newer than those here."""

    @property
    def is_empty(self) -> bool:
        """Say whether nothing waits, here or on disk."""
        return not (self.entries or self.shelved)


class Lanes:
    """All lanes of one bus. Not for several threads at once."""

    def __init__(self, key_of: KeyOf, make_backoff: Callable[[], Backoff]) -> None:
        self._key_of = key_of
        self._make_backoff = make_backoff
        self._lanes: dict[LaneKey, Lane] = {}
        self.events = 0
        self.outgoing: list[tuple[LaneKey, Entry]] = []
        """Events that must go to disk, because older ones of their keys are there."""

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def next_ready_at(self) -> float | None:
        """Return when the first lane may be tried again."""
        return min((lane.ready_at for lane in self._lanes.values() if lane.entries), default=None)

    @property
    def oldest_at(self) -> float | None:
        """Return when the oldest waiting event was accepted."""
        heads = (lane.entries[0][0] for lane in self._lanes.values() if lane.entries)
        return min((event.enqueued_at for event in heads), default=None)

    @property
    def misdirected(self) -> int:
        """Return how many lanes wait for a destination to be put right."""
        return sum(lane.is_misdirected for lane in self._lanes.values())

    def park(
        self, failed: Iterable[Entry], now: float, at_least: float = 0.0, *, is_misdirected: bool
    ) -> float:
        """Put failed events of one key back at the head of its lane; return the longest pause."""
        entries = list(failed)
        lane = self._lane(self._key_of(entries[0][0]))
        lane.entries.extendleft(reversed(entries))
        lane.is_misdirected = is_misdirected
        self.events += len(entries)
        pause = lane.backoff.next(at_least, is_parked=is_misdirected)
        lane.ready_at = now + pause
        return pause

    def divert(self, entries: Iterable[Entry]) -> list[Entry]:
        """Queue up events of keys in trouble; return the others."""
        free = []
        for entry in entries:
            key = self._key_of(entry[0])
            lane = self._lanes.get(key)
            if lane is None:
                free.append(entry)
            elif lane.shelved:
                lane.shelved += 1
                self.outgoing.append((key, entry))
            else:
                lane.entries.append(entry)
                self.events += 1
        return free

    def take_ready(self, now: float, max_events: int, max_bytes: int) -> list[Entry]:
        """Take events of lanes whose pause is over, the lanes in turn."""
        taken: list[Entry] = []
        room = max_bytes
        for key, lane in list(self._lanes.items()):
            if lane.ready_at > now or not lane.entries:
                continue
            # Served lanes go to the end of the line.
            self._lanes[key] = self._lanes.pop(key)
            while lane.entries and len(taken) < max_events:
                size = event_bytes(lane.entries[0][0])
                if size > room and taken:
                    self.events -= len(taken)
                    return taken
                room -= size
                taken.append(lane.entries.popleft())
            if len(taken) >= max_events:
                break
        self.events -= len(taken)
        return taken

    def succeed(self, events: Iterable[Event]) -> None:
        """Note that events were delivered; a lane with nothing left ends."""
        for key in {self._key_of(event) for event in events}:
            lane = self._lanes.get(key)
            if lane is None:
                continue
            lane.backoff.reset()
            lane.is_misdirected = False
            lane.ready_at = 0.0
            if lane.is_empty:
                del self._lanes[key]

    def discard_empty(self) -> None:
        """End lanes whose last event was given up."""
        for key in [key for key, lane in self._lanes.items() if lane.is_empty]:
            del self._lanes[key]

    def unload(self) -> list[tuple[LaneKey, Entry]]:
        """Take all events of lanes that have none on disk, to be put there.

        All of them, so that what a key has on disk is always its oldest.
        """
        taken: list[tuple[LaneKey, Entry]] = []
        for key, lane in self._lanes.items():
            if lane.entries and not lane.shelved:
                taken += [(key, entry) for entry in lane.entries]
                lane.shelved = len(lane.entries)
                lane.entries.clear()
        self.events -= len(taken)
        return taken

    def take_back(self, keyed: Iterable[tuple[LaneKey, Entry]]) -> None:
        """Return events that could not be put on disk to the ends of their lanes."""
        for key, entry in keyed:
            lane = self._lanes[key]
            lane.entries.append(entry)
            lane.shelved -= 1
            self.events += 1

    def lose_outgoing(self) -> list[Entry]:
        """Take the events that had to go to disk and whose destination may never come."""
        lost, kept = [], []
        for key, entry in self.outgoing:
            lane = self._lanes[key]
            if lane.is_misdirected:
                lane.shelved -= 1
                lost.append(entry)
            else:
                kept.append((key, entry))
        self.outgoing = kept
        return lost

    def recall(self, key: LaneKey) -> list[Entry]:
        """Take the events of a key that had to go to disk: no older ones are there any more."""
        recalled = [entry for name, entry in self.outgoing if name == key]
        self.outgoing = [keyed for keyed in self.outgoing if keyed[0] != key]
        return recalled

    def hungry(self, now: float) -> list[tuple[LaneKey, bool]]:
        """Return the keys whose turn it is and whose events are all on disk.

        With each, whether it failed the last time.
        """
        return [
            (key, lane.backoff.failures > 0)
            for key, lane in self._lanes.items()
            if lane.shelved and not lane.entries and lane.ready_at <= now
        ]

    def restock(self, key: LaneKey, entries: Sequence[Entry], left: int) -> None:
        """Add events from disk, of which so many are left there."""
        lane = self._lanes[key]
        lane.entries.extend(entries)
        lane.shelved = left + sum(name == key for name, _ in self.outgoing)
        self.events += len(entries)
        if lane.is_empty:
            del self._lanes[key]

    def wake(self) -> None:
        """Let every lane be tried now."""
        for lane in self._lanes.values():
            lane.ready_at = 0.0

    def drop_oldest(self, count: int, size_bytes: int, *, controls: bool) -> list[Entry]:
        """Remove the oldest events of the longest lanes until enough is gone."""
        dropped: list[Entry] = []
        freed = 0
        for lane in sorted(self._lanes.values(), key=lambda lane: -len(lane.entries)):
            stay: deque[Entry] = deque()
            for entry in lane.entries:
                is_enough = len(dropped) >= count and freed >= size_bytes
                if is_enough or (not controls and entry[0].series.case in CONTROL_CASES):
                    stay.append(entry)
                else:
                    dropped.append(entry)
                    freed += event_bytes(entry[0])
            lane.entries = stay
        self.events -= len(dropped)
        return dropped

    def drain(self) -> Iterator[Entry]:
        """Take everything."""
        for lane in self._lanes.values():
            yield from lane.entries
        yield from (entry for _, entry in self.outgoing)
        self.outgoing = []
        self._lanes.clear()
        self.events = 0

    def _lane(self, key: LaneKey) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(self._make_backoff())
        return lane
