"""Sending the events of one link, batch after batch, in a thread that can be abandoned."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from azure.eventhub import EventData, EventDataBatch

from tardis_machine.buses.event_hubs.errors import DEADLINE, read_error
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import HELD_BACK, OK, Outcome, Result
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.event_hubs.producer import Hub

Member = tuple[int, Event]
"""An event and its place in the batch of the sender."""


@dataclass(frozen=True)
class Group:
    """Events that must be stored in their order: of one key, or of one partition."""

    members: Sequence[Member]
    key: str | None = None
    partition_id: str | None = None


class Shipment(threading.Thread):
    """Sends the groups of one link; `results` has the outcome of each event by its place.

    Args:
        hub: Where to.
        groups: What, in this order.
        to_data: Makes the client's event of ours.
        max_events: Events of one batch, at most.
        batch_seconds: How long one batch may take; `is_late` says that one took longer.
        on_end: Called with this shipment when it is done.
    """

    def __init__(
        self,
        hub: Hub,
        groups: Sequence[Group],
        *,
        to_data: Callable[[Event], EventData],
        max_events: int,
        batch_seconds: float,
        on_end: Callable[["Shipment"], None],
    ) -> None:
        super().__init__(name=f"event-hubs-{hub.name}", daemon=True)
        self.hub = hub
        self._groups = groups
        self._to_data = to_data
        self._max_events = max_events
        self._batch_seconds = batch_seconds
        self._on_end = on_end
        self._results: dict[int, Result] = {}
        self._on_its_way: Sequence[Member] = ()
        self.deadline = time.monotonic() + batch_seconds

    @property
    def is_late(self) -> bool:
        """Say whether the current batch has timed out."""
        return time.monotonic() > self.deadline

    def begin(self) -> None:
        """Start the thread and the time of the first batch."""
        self.deadline = time.monotonic() + self._batch_seconds
        self.start()

    def run(self) -> None:
        """Send all groups."""
        try:
            for group in self._groups:
                if self.hub.is_discarded:
                    break
                result = self._send_group(group)
                if result.outcome is Outcome.CLIENT_LOST:
                    self._settle_rest(result)
                    break
        finally:
            self._on_end(self)

    def results(self) -> dict[int, Result]:
        """Return all outcomes; those of events in flight are unknown."""
        results = dict(self._results)
        unknown = {place for place, _ in self._on_its_way}
        for group in self._groups:
            for place, _ in group.members:
                results.setdefault(place, DEADLINE if place in unknown else HELD_BACK)
        return results

    def _send_group(self, group: Group) -> Result:
        """Send the batches of a group until one fails; return the last outcome."""
        result, members = OK, list(group.members)
        while members and result.outcome in (Outcome.OK, Outcome.BAD_RECORD):
            self.deadline = time.monotonic() + self._batch_seconds
            result, members = self._send_batch(group, members)
        for place, _ in members:
            self._results[place] = _for_the_rest(result)
        return result

    def _send_batch(self, group: Group, members: list[Member]) -> tuple[Result, list[Member]]:
        """Send the first events of a list; return what became of them, and the others."""
        try:
            batch = self.hub.new_batch(key=group.key, partition_id=group.partition_id)
        # A connection that dies inside the client shows as errors of every kind.
        except Exception as error:
            result = read_error(error, is_sent=False, events=1)
            self._settle(members[:1], result)
            return result, members[1:]
        loaded = self._load(batch, members)
        rest = [member for member in members[len(loaded) :] if member[0] not in self._results]
        return (self._send(batch, loaded) if loaded else OK), rest

    def _load(self, batch: EventDataBatch, members: Sequence[Member]) -> list[Member]:
        """Put as many events into a batch as fit; one too large for any batch is settled."""
        loaded: list[Member] = []
        for place, event in members[: self._max_events]:
            try:
                batch.add(self._to_data(event))
            except ValueError as error:
                if not loaded:
                    self._results[place] = Result(Outcome.BAD_RECORD, Reason.TOO_LARGE, str(error))
                break
            loaded.append((place, event))
        return loaded

    def _send(self, batch: EventDataBatch, loaded: Sequence[Member]) -> Result:
        self._on_its_way = loaded
        try:
            self.hub.send(batch)
            result = OK
        except Exception as error:
            result = read_error(error, is_sent=True, events=len(loaded))
        self._settle(loaded, result)
        self._on_its_way = ()
        return result

    def _settle(self, members: Sequence[Member], result: Result) -> None:
        for place, _ in members:
            self._results[place] = result

    def _settle_rest(self, result: Result) -> None:
        """Give the groups that were not started the same result: they share the link."""
        for group in self._groups:
            for place, _ in group.members:
                self._results.setdefault(place, _for_the_rest(result))


def _for_the_rest(result: Result) -> Result:
    """Return the result of events behind one that failed."""
    return result if result.outcome is Outcome.CLIENT_LOST else HELD_BACK
