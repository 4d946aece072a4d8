"""Who waits for which events."""

import threading
from collections.abc import Callable


class Ticket:
    """Counts the unsettled events of something and tells its owner when none is left.

    The owner holds it open while events are added, from one thread; they may be settled from any.
    """

    __slots__ = ("_lock", "_on_done", "_open")

    is_backed = False
    """The events are on disk already and stay there until they are settled."""

    def __init__(self, on_done: Callable[[], None], count: int = 0) -> None:
        self._on_done = on_done
        self._open = count + 1
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Expect more events to be settled."""
        with self._lock:
            self._open += count

    def settle(self, count: int) -> None:
        """Note that events are delivered, safe on disk, or given up and counted."""
        with self._lock:
            self._open -= count
            is_done = self._open == 0
        if is_done:
            self._on_done()

    def complete(self) -> None:
        """Say that no more events will be added."""
        self.settle(1)


class BackedTicket(Ticket):
    """Waits for events that are on disk."""

    __slots__ = ()
    is_backed = True


def forgotten(count: int = 0) -> Ticket:
    """Return a ticket that nobody waits for."""
    return Ticket(lambda: None, count)
