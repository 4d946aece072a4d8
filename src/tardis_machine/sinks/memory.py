"""A bus in memory whose faults are planned: for tests of whatever publishes."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tardis_machine.buses.results import HELD_BACK, OK, Outcome, Result
from tardis_machine.model.errors import SinkUnavailableError
from tardis_machine.sinks.base import Event

Judge: TypeAlias = Callable[[Event], Result | None]
"""Returns what befalls an event; None lets it be stored."""


class MemorySink:
    """Keeps what it is sent.

    `judges` are used one per call of `send`, and `judge` whenever none is planned. After an event
    that is not stored, later events of its key are refused too, as the contract of sinks asks.
    """

    def __init__(self, *, max_batch_events: int = 1000, keeps_order: bool = False) -> None:
        self.max_batch_events = max_batch_events
        self.max_batch_bytes = 1 << 20
        self.max_batch_delay_seconds = 0.0
        self.keeps_order = keeps_order
        self.stored: list[Event] = []
        self.batches: list[list[Event]] = []
        self.judges: deque[Judge] = deque()
        self.judge: Judge | None = None
        self.is_down = False
        self.opened = 0
        self.is_closed = False

    def open(self) -> None:
        """Connect, unless the bus is down."""
        if self.is_down:
            raise SinkUnavailableError("The in-memory bus is down.")
        self.opened += 1

    def send(self, events: Sequence[Event]) -> Sequence[Result]:
        """Store events as the planned faults allow."""
        if self.is_down:
            raise SinkUnavailableError("The in-memory bus went down.")
        self.batches.append(list(events))
        judge = self.judges.popleft() if self.judges else self.judge
        if judge is None:
            self.stored.extend(events)
            return [OK] * len(events)
        held: set[tuple[str, str]] = set()
        return [self._take(event, judge, held) for event in events]

    def idle(self, seconds: float) -> None:
        """Do nothing."""

    def close(self, seconds: float) -> None:
        """Note that the sink was closed."""
        self.is_closed = True

    def _take(self, event: Event, judge: Judge, held: set[tuple[str, str]]) -> Result:
        key = (event.route.destination, event.route.key)
        if key in held:
            return HELD_BACK
        result = judge(event)
        if result is None or result.outcome in (Outcome.OK, Outcome.AMBIGUOUS):
            self.stored.append(event)
        if result is not None and result.outcome not in (Outcome.OK, Outcome.BAD_RECORD):
            held.add(key)
        return result or OK
