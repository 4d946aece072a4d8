"""Read Azure Event Hubs: ranges of the sequence that each partition has.

The service reports the first and the last sequence number of a partition, so a range can be planned
exactly and read again as long as the service keeps its events.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from azure.eventhub import EventData
from azure.eventhub.amqp import AmqpMessageBodyType

from tardis_machine.buses.event_hubs.client import make_credential
from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.lake.arrow import arrow
from tardis_machine.lake.buses.client import NumberedClient, Page, Planner, ReadPolicy, Span
from tardis_machine.lake.buses.event_hubs.receiver import Hub
from tardis_machine.lake.buses.names import StreamNames
from tardis_machine.lake.buses.planning import LanePlanner
from tardis_machine.lake.buses.positions import Lane, Range
from tardis_machine.lake.buses.rows import make_rows

DEFAULT_GROUP = "$Default"

_US = pa.timestamp("us", "UTC")


class EventHubsBus:
    """The hubs that the settings of publishing name.

    Args:
        settings: How to reach them.
        consumer_group: Whose reader this is; a group takes five readers per partition.
    """

    name = EventHubsSettings.bus

    def __init__(self, settings: EventHubsSettings, consumer_group: str = DEFAULT_GROUP) -> None:
        self._settings = settings
        self._group = consumer_group

    @property
    def endpoint(self) -> str:
        """Return the namespace."""
        return self._settings.host

    def connect(self) -> "EventHubsClient":
        """Return a client; it connects when it is used."""
        return EventHubsClient(self._settings, self._group)

    def planner(self, policy: ReadPolicy) -> Planner:
        """Return what plans batches."""
        return LanePlanner(self.connect(), policy)


class EventHubsClient(NumberedClient):
    """Reads partitions by their sequence numbers."""

    def __init__(self, settings: EventHubsSettings, group: str) -> None:
        self._settings = settings
        self._group = group
        self._names = StreamNames.of(settings.destinations).literals
        self._credential: Any = None
        self._hubs: dict[str, Hub] = {}

    def close(self) -> None:
        """Close all connections."""
        for hub in self._hubs.values():
            hub.close()
        self._hubs.clear()

    def spans(self) -> Mapping[Lane, Span]:
        """Ask for the state of every partition."""
        spans: dict[Lane, Span] = {}
        for name in self._names:
            partitions = self._hub(name).partition_ids()
            found = self._hub(name).properties(partitions)
            lanes = (Lane(name, partition) for partition in partitions)
            spans |= dict(zip(lanes, map(_span, found), strict=True))
        return spans

    def stream_ids(self) -> Mapping[str, str]:
        """Return when the hubs were created."""
        return {name: hub.created for name, hub in self._hubs.items()}

    def span(self, lane: Lane) -> Span:
        """Ask for the state of one partition."""
        return _span(self._hub(lane.stream).properties([lane.partition])[0])

    def cut(self, wanted: Range, parts: int) -> list[Range]:
        """Leave a range whole: the service takes few readers per partition."""
        return [wanted]

    def read(self, wanted: Range) -> Iterator[Page]:
        """Receive from right after the last event read, up to the end."""
        hub, last, end = self._hub(wanted.lane.stream), int(wanted.start), int(wanted.end)
        for events in hub.receive(wanted.lane.partition, last):
            if events:
                kept = [event for event in events if int(event.sequence_number or 0) <= end]
                last = int(events[-1].sequence_number or 0)
                yield Page(_rows(wanted.lane, kept), min(last, end))
            if last >= end or (not events and self.span(wanted.lane).oldest >= end):
                return

    def _hub(self, name: str) -> Hub:
        if name not in self._hubs:
            if self._credential is None:
                self._credential = make_credential(self._settings)
            self._hubs[name] = Hub(self._settings, name, self._group, self._credential)
        return self._hubs[name]


def _span(properties: Mapping[str, Any]) -> Span:
    newest = int(properties["last_enqueued_sequence_number"])
    if properties["is_empty"]:
        return Span(newest, newest)
    return Span(int(properties["beginning_sequence_number"]) - 1, newest)


def _rows(lane: Lane, events: list[EventData]) -> pa.RecordBatch:
    return make_rows(
        EventHubsSettings.bus,
        lane,
        arrow.array([event.sequence_number for event in events], pa.int64()),
        arrow.array([event.enqueued_time for event in events], _US),
        arrow.array([_envelope(event) for event in events], pa.binary()),
    )


def _envelope(event: EventData) -> bytes | None:
    """Return the body; events of other producers may have one that is no bytes."""
    body: Any = event.body
    if event.body_type is AmqpMessageBodyType.DATA:
        return b"".join(body)
    return body if isinstance(body, bytes) else None
