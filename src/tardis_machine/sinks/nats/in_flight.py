"""Events on their way to NATS, each waiting for its answer."""

import asyncio
from collections.abc import Iterable, Sequence

from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.sinks.base import Event


class Window:
    """Numbered events in flight, each waiting for its acknowledgement.

    Numbers continue from window to window, so that a late acknowledgement is ignored.
    """

    def __init__(self, events: Sequence[Event], first: int) -> None:
        self.first = first
        self.results: list[Result | None] = [None] * len(events)
        self.unsettled = len(events)
        self._events = events
        self._troubles: set[Outcome] = set()
        self._settled = asyncio.get_running_loop().create_future()

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """Take positive answers, many at once."""
        results, first, count = self.results, self.first, len(self.results)
        fresh = 0
        for number in numbers:
            place = number - first
            if 0 <= place < count and results[place] is None:
                results[place] = OK
                fresh += 1
        self._note(fresh)

    def settle(self, number: int, result: Result) -> None:
        """Take one answer."""
        place = number - self.first
        if 0 <= place < len(self.results) and self.results[place] is None:
            self.results[place] = result
            if result is not OK:
                self._troubles.add(result.outcome)
            self._note(1)

    def settle_subject(self, subject: str, result: Result) -> None:
        """Give all waiting events of a subject, in lower case, the same result."""
        for place, event in enumerate(self._events):
            if event.route.destination.lower() == subject:
                self.settle(self.first + place, result)

    def settle_rest(self, result: Result) -> None:
        """Give all waiting events the same result."""
        for number in range(self.first, self.first + len(self.results)):
            self.settle(number, result)

    @property
    def is_all_ok(self) -> bool:
        """Say whether every answer so far was a plain yes."""
        return not self._troubles

    @property
    def is_held_up(self) -> bool:
        """Say whether an event has to be sent again, so that later ones must wait for it."""
        return not self._troubles <= {Outcome.OK, Outcome.BAD_RECORD}

    async def wait(self, seconds: float) -> bool:
        """Wait for all answers; say no when none came for so long."""
        while not self._settled.done():
            before = self.unsettled
            await asyncio.wait([self._settled], timeout=seconds)
            if self.unsettled == before:
                break
        return self._settled.done()

    def _note(self, fresh: int) -> None:
        self.unsettled -= fresh
        if self.unsettled == 0 and not self._settled.done():
            self._settled.set_result(None)
