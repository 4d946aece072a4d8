"""Keeps keys in trouble from taking all memory: their events go to disk and come back."""

from collections.abc import Sequence

from tardis_machine.sinks.backlog import Backlog
from tardis_machine.sinks.fifo import Entry, bytes_of
from tardis_machine.sinks.shelf import Keyed, Shelf
from tardis_machine.sinks.spool import SpoolFullError
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

RESTOCK_EVENTS = 1000
"""Events of one key taken back at once."""


class Relief:
    """Moves events between the lanes of a backlog and a shelf. Not for several threads at once."""

    def __init__(self, backlog: Backlog, shelf: Shelf) -> None:
        self._backlog = backlog
        self._lanes = backlog.lanes
        self._shelf = shelf
        self._is_failing = False

    @property
    def events(self) -> int:
        """Return how many events are on disk."""
        return self._shelf.events

    def before_cut(self, now: float) -> None:
        """Make room when lanes are long, and take back what can be tried again."""
        if not self._lanes:
            return
        if self._backlog.is_crowded:
            keyed = self._lanes.unload()
            if keyed and not self._put(keyed):
                self._lanes.take_back(keyed)
        for key, has_failed in self._lanes.hungry(now):
            room = self._room
            if room <= 0:
                return
            # One event tells whether the trouble is over.
            entries = self._shelf.take(key, 1 if has_failed else min(room, RESTOCK_EVENTS))
            self._backlog.remember(entries)
            left = self._shelf.count(key)
            self._lanes.restock(key, entries or self._lanes.recall(key), left)

    @property
    def _room(self) -> int:
        """Return how many events may come back from disk.

        Some always may while the queue waits for the disk: both would wait for ever otherwise.
        """
        least = RESTOCK_EVENTS - self._lanes.events if self._backlog.is_held_up else 0
        return max(self._backlog.free_events, least)

    def after_cut(self) -> list[Entry]:
        """Put events on disk that were cut from the queue for keys that have some there.

        Where there is no room they wait, and so does the queue.

        Returns:
            Those that nobody may wait for, because their destination is missing: they are lost.
        """
        if not self._lanes.outgoing:
            return []
        if self._put(self._lanes.outgoing):
            self._lanes.outgoing = []
            return []
        lost = self._lanes.lose_outgoing()
        self._backlog.forget(len(lost), bytes_of(event for event, _ in lost))
        return lost

    def _put(self, keyed: Sequence[Keyed]) -> bool:
        try:
            self._shelf.put(keyed)
        except (SpoolFullError, OSError) as error:
            if not self._is_failing:
                log.error(
                    "writing parked events to disk failed; they stay in memory", error=str(error)
                )
            self._is_failing = True
            return False
        self._is_failing = False
        self._backlog.forget(len(keyed), bytes_of(event for _, (event, _) in keyed))
        return True
