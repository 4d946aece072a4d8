"""The Event Hubs sink, on azure-eventhub: AMQP batches, each stored or rejected as a whole."""

import queue
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from tardis_machine.buses.event_hubs.client import make_credential, within
from tardis_machine.buses.event_hubs.errors import FAILURES, explained, is_missing, read_error
from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.event_hubs.in_flight import Group, Member, Shipment
from tardis_machine.sinks.event_hubs.producer import Hub
from tardis_machine.sinks.event_hubs.records import RecordMaker
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

_CLOSED = Result(Outcome.CLIENT_LOST, Reason.CLOSED, "the client is closed")
_DEFAULT_BATCH_BYTES = 1_048_576
_CLOSE_SECONDS = 2.0
_GRACE_SECONDS = 0.5
"""How much longer than its own timeout a call of the client may take."""


class EventHubsSink:
    """Publishes events to event hubs."""

    keeps_order = False

    def __init__(self, settings: EventHubsSettings, delivery: EventBusSettings) -> None:
        self._settings = settings
        self.max_batch_events = settings.batch_events * settings.max_in_flight
        batch_bytes = settings.max_batch_bytes or _DEFAULT_BATCH_BYTES
        self.max_batch_bytes = batch_bytes * settings.max_in_flight
        self.max_batch_delay_seconds = settings.max_batch_delay_ms / 1000
        self._connect_seconds = settings.connect_timeout_ms / 1000
        self._batch_seconds = settings.request_timeout_ms / 1000 + _GRACE_SECONDS
        self._records = RecordMaker(settings, delivery.message_id)
        self._hubs: dict[str, Hub] = {}
        self._credential: Any = None
        self._is_open = False

    def open(self) -> None:
        """Authenticate and open a link to the hub of the settings."""
        self.close(_CLOSE_SECONDS)
        if self._credential is None:
            self._credential = make_credential(self._settings)
        try:
            hub = self._hub(self._settings.base_hub or "")
            within(self._connect_seconds, hub.connect)
        except FAILURES as error:
            if not is_missing(error):
                self.close(0)
                raise explained(error) from error
        self._is_open = True

    def send(self, events: Sequence[Event]) -> Sequence[Result]:
        """Send events in batches per key or partition and wait for their outcomes."""
        if not self._is_open:
            return [_CLOSED] * len(events)
        results: dict[int, Result] = {}
        links: dict[tuple[Hub, str | None], list[Group]] = {}
        for name, members in _by_hub(self._sendable(events, results)).items():
            try:
                hub = self._hub(name)
                groups = list(self._groups(hub, members))
            except FAILURES as error:
                result = read_error(error, is_sent=False, events=1)
                results |= dict.fromkeys((place for place, _ in members), result)
                continue
            for group in groups:
                links.setdefault((hub, group.partition_id), []).append(group)
        results |= self._ship([(hub, groups) for (hub, _), groups in links.items()])
        return [results[place] for place in range(len(events))]

    def idle(self, seconds: float) -> None:
        """Do nothing: the client has no work of its own, and reopens links that were detached."""

    def close(self, seconds: float) -> None:
        """Close the clients; abandon one that does not respond."""
        self._is_open = False
        hubs, self._hubs = self._hubs, {}
        deadline = time.monotonic() + seconds
        for hub in hubs.values():
            try:
                within(max(0.0, deadline - time.monotonic()), hub.close)
            except FAILURES:
                hub.discard()

    def _hub(self, name: str) -> Hub:
        hub = self._hubs.get(name)
        if hub is None:
            hub = self._hubs[name] = Hub(self._settings, name, self._credential)
        return hub

    def _sendable(self, events: Sequence[Event], results: dict[int, Result]) -> Iterator[Member]:
        """Yield the events that are not too large by our own limit."""
        limit = self._settings.max_record_bytes
        for place, event in enumerate(events):
            if limit is not None and len(event.data) > limit:
                detail = f"{len(event.data)} bytes, limit {limit}"
                results[place] = Result(Outcome.BAD_RECORD, Reason.TOO_LARGE, detail)
            else:
                yield place, event

    def _groups(self, hub: Hub, members: Sequence[Member]) -> Iterator[Group]:
        """Yield the events of a hub in groups whose order must be kept."""
        partitioning = self._settings.partitioning
        if partitioning == "round-robin":
            yield Group(members)
            return
        ids = self._partition_ids(hub) if partitioning == "client" else []
        sorted_members: dict[str, list[Member]] = {}
        for member in members:
            key = member[1].route.key
            place = ids[zlib.crc32(key.encode()) % len(ids)] if ids else key
            sorted_members.setdefault(place, []).append(member)
        for name, found in sorted_members.items():
            yield Group(found, partition_id=name) if ids else Group(found, key=name)

    def _partition_ids(self, hub: Hub) -> list[str]:
        try:
            return within(self._connect_seconds, hub.partition_ids)
        except TimeoutError:
            self._discard(hub)
            raise

    def _ship(self, links: Sequence[tuple[Hub, Sequence[Group]]]) -> dict[int, Result]:
        """Send on several links concurrently; abandon those that do not respond."""
        ended: queue.SimpleQueue[Shipment] = queue.SimpleQueue()
        waiting = [self._shipment(hub, groups, ended) for hub, groups in reversed(links)]
        running: set[Shipment] = set()
        results: dict[int, Result] = {}
        broken: set[Hub] = set()
        """Clients that hang, wherever, or whose connection ended in a send: new ones take over."""
        while waiting or running:
            while waiting and len(running) < self._settings.max_in_flight:
                running.add(shipment := waiting.pop())
                shipment.begin()
            for shipment in self._ended(running, ended):
                running.discard(shipment)
                found = shipment.results()
                results |= found
                is_in_doubt = any(each.outcome is Outcome.AMBIGUOUS for each in found.values())
                if shipment.hub.is_discarded or is_in_doubt:
                    broken.add(shipment.hub)
        for hub in broken:
            self._discard(hub)
        return results

    def _shipment(
        self, hub: Hub, groups: Sequence[Group], ended: "queue.SimpleQueue[Shipment]"
    ) -> Shipment:
        return Shipment(
            hub,
            groups,
            to_data=self._records.data,
            max_events=self._settings.batch_events,
            batch_seconds=self._batch_seconds,
            on_end=ended.put,
        )

    def _ended(
        self, running: set[Shipment], ended: "queue.SimpleQueue[Shipment]"
    ) -> list[Shipment]:
        """Wait for one shipment to end, or for its time to be over."""
        soonest = min(shipment.deadline for shipment in running)
        try:
            return [ended.get(timeout=max(0.0, soonest - time.monotonic()) + 0.001)]
        except queue.Empty:
            late = [shipment for shipment in running if shipment.is_late]
            for shipment in late:
                log.warning("client not responding; replaced", hub=shipment.hub.name)
                shipment.hub.is_discarded = True
            return late

    def _discard(self, hub: Hub) -> None:
        if self._hubs.get(hub.name) is hub:
            del self._hubs[hub.name]
        hub.discard()


def _by_hub(members: Iterator[Member]) -> dict[str, list[Member]]:
    hubs: dict[str, list[Member]] = {}
    for member in members:
        hubs.setdefault(member[1].route.destination, []).append(member)
    return hubs
