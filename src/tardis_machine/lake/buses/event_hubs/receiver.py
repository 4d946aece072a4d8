"""One hub by azure-eventhub: properties of its partitions, and receiving from one of them."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from azure.eventhub import EventData, EventHubConsumerClient

from tardis_machine.buses.event_hubs.client import make_client, run_aside, within
from tardis_machine.buses.event_hubs.connections import (
    Connections,
    client_options,
    make_connections,
)
from tardis_machine.buses.event_hubs.errors import FAILURES, read_error
from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.buses.results import Outcome
from tardis_machine.lake.errors import BusError, BusUnavailableError

PREFETCHED_EVENTS = 1000
PAGES_AHEAD = 64
IDLE_SECONDS = 0.5
MAX_QUESTIONS = 8
CLAIM_SECONDS = 1.0
"""A thread of the client sleeps for so long before it sees that the client was closed."""

_T = TypeVar("_T")


class Consumer(NamedTuple):
    """A client and its connections."""

    client: EventHubConsumerClient
    connections: Connections


class Hub:
    """The consumer side of one hub; every call ends in time, whatever its client does."""

    def __init__(self, settings: EventHubsSettings, name: str, group: str, credential: Any) -> None:
        self._settings = settings
        self._name = name
        self._group = group
        self._credential = credential
        self._seconds = settings.request_timeout_ms / 1000
        self._consumer: Consumer | None = None
        self._described: dict[str, Any] | None = None

    def partition_ids(self) -> list[str]:
        """Return the partitions."""
        return list(self._description["partition_ids"])

    @property
    def created(self) -> str:
        """Return when the hub was created."""
        return str(self._description["created_at"])

    @property
    def _description(self) -> dict[str, Any]:
        """Describe the hub; the number of partitions rarely changes, so it is asked for once."""
        if self._described is None:
            self._described = self._called(lambda client: client.get_eventhub_properties())
        return self._described

    def properties(self, partitions: Sequence[str]) -> list[dict[str, Any]]:
        """Return the properties of partitions, requested concurrently because each is slow."""
        self._open()
        with ThreadPoolExecutor(MAX_QUESTIONS) as pool:
            return list(pool.map(self._properties, partitions))

    def _properties(self, partition: str) -> dict[str, Any]:
        return self._called(lambda client: client.get_partition_properties(partition))

    def receive(self, partition: str, after: int) -> Iterator[list[EventData]]:
        """Yield events that follow a sequence number; an empty list when none comes for a while."""
        consumer = self._explained(self._make_consumer)
        receiver = Receiver(consumer.client, partition, after)
        receiver.start()
        last_seen = time.monotonic()
        try:
            while True:
                events = self._explained(lambda: receiver.take(IDLE_SECONDS))
                yield events
                last_seen = time.monotonic() if events else last_seen
                if time.monotonic() - last_seen > self._seconds:
                    raise BusUnavailableError(
                        f"Event Hubs sent no events of {self._name} within the timeout."
                    )
        except BusUnavailableError:
            consumer.connections.end()
            raise
        finally:
            receiver.stop()
            run_aside(consumer.client.close)

    def close(self) -> None:
        """Close the connection."""
        self._described = None
        if self._consumer is not None:
            run_aside(self._consumer.client.close)
            self._consumer = None

    def _discard(self) -> None:
        if self._consumer is not None:
            self._consumer.connections.end()
        self.close()

    def _called(self, ask: Callable[[EventHubConsumerClient], _T]) -> _T:
        client = self._open()
        return self._explained(lambda: within(self._seconds, lambda: ask(client)))

    def _open(self) -> EventHubConsumerClient:
        if self._consumer is None:
            self._consumer = self._explained(self._make_consumer)
        return self._consumer.client

    def _explained(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except FAILURES as error:
            self._discard()
            result = read_error(error, is_sent=False, events=1)
            if result.outcome in (Outcome.BAD_DESTINATION, Outcome.BAD_RECORD):
                raise BusError(
                    f"Event Hubs rejected the receiver of {self._name}: {result.detail}"
                ) from error
            raise BusUnavailableError(f"Event Hubs is unavailable: {result.detail}") from error

    def _make_consumer(self) -> Consumer:
        settings, connections = self._settings, make_connections(self._settings)
        options = client_options(settings, connections) | {"load_balancing_interval": CLAIM_SECONDS}
        client = make_client(
            EventHubConsumerClient,
            settings,
            self._name,
            self._credential,
            consumer_group=self._group,
            **options,
        )
        return Consumer(client, connections)


class Receiver:
    """Hands events over from the thread in which the client calls back."""

    def __init__(self, client: EventHubConsumerClient, partition: str, after: int) -> None:
        self._client = client
        self._partition = partition
        self._after = after
        self._pages: queue.Queue[list[EventData] | Exception] = queue.Queue(PAGES_AHEAD)
        self._is_stopped = threading.Event()

    def start(self) -> None:
        """Start receiving."""
        threading.Thread(target=self._run, name="event-hubs-receiver", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end; what it still receives is dropped."""
        self._is_stopped.set()

    def take(self, seconds: float) -> list[EventData]:
        """Return what was received since, waiting a while for the first events."""
        events: list[EventData] = []
        try:
            while len(events) < PREFETCHED_EVENTS:
                page = self._pages.get(timeout=0 if events else seconds)
                if isinstance(page, Exception):
                    raise page
                events += page
        except queue.Empty:
            pass
        return events

    def _run(self) -> None:
        try:
            self._client.receive_batch(
                lambda _, events: self._put(events),
                partition_id=self._partition,
                starting_position=self._after,
                prefetch=PREFETCHED_EVENTS,
                max_batch_size=PREFETCHED_EVENTS,
                on_error=lambda _, error: self._put(error),
            )
        except Exception as error:
            self._put(error)

    def _put(self, page: list[EventData] | Exception) -> None:
        while not self._is_stopped.is_set():
            try:
                self._pages.put(page, timeout=IDLE_SECONDS)
            except queue.Full:
                continue
            return
