"""The producer of one hub."""

import socket
from typing import Any

from azure.eventhub import EventDataBatch, EventHubProducerClient

from tardis_machine.buses.event_hubs.client import make_client, run_aside
from tardis_machine.buses.event_hubs.connections import client_options, make_connections, shut
from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

_SHUT_EVERY_SECONDS = 0.2


class Hub:
    """The client of one hub. Calls block, and may not return: see `within`."""

    def __init__(self, settings: EventHubsSettings, name: str, credential: Any) -> None:
        self._settings = settings
        self.name = name
        self._connections = make_connections(settings)
        options = client_options(settings, self._connections)
        self._client = make_client(EventHubProducerClient, settings, name, credential, **options)
        self._ids: list[str] | None = None
        self._limit: int | None = None
        self.is_discarded = False

    def partition_ids(self) -> list[str]:
        """Return the partitions; asked for once, so that keys keep theirs."""
        if self._ids is None:
            self._ids = sorted(self._client.get_partition_ids(), key=lambda text: (len(text), text))
        return self._ids

    def new_batch(self, *, key: str | None, partition_id: str | None) -> EventDataBatch:
        """Return an empty batch; the first one opens the link."""
        batch = self._client.create_batch(
            partition_key=key, partition_id=partition_id, max_size_in_bytes=self._limit
        )
        if self._limit is None:
            self._limit = self._limit_of(batch.max_size_in_bytes)
            batch.max_size_in_bytes = self._limit
        return batch

    def _limit_of(self, link_bytes: int) -> int:
        wanted = self._settings.max_batch_bytes
        if wanted > link_bytes:
            log.warning(
                "event-hubs-max-batch-bytes exceeds the maximum of the link; using the maximum",
                hub=self.name,
                maximum=link_bytes,
            )
        return min(wanted or link_bytes, link_bytes)

    def send(self, batch: EventDataBatch) -> None:
        """Send a batch and wait for its outcome."""
        self._client.send_batch(batch, timeout=self._settings.request_timeout_ms / 1000)

    def connect(self) -> None:
        """Open the link that batches without a partition of their own go by."""
        self.new_batch(key=None, partition_id=None)

    def close(self) -> None:
        """Close the links and connections."""
        self._client.close()

    def discard(self) -> None:
        """Break the connections of a client that hangs, and close it."""
        self.is_discarded = True
        self._connections.end()
        run_aside(self._end)

    def _end(self) -> None:
        """Close the client; its calls connect once more by themselves before they give up."""
        closing = run_aside(self.close)
        while closing.is_alive():
            for connection in self._plain_connections():
                shut(connection)
            closing.join(_SHUT_EVERY_SECONDS)

    def _plain_connections(self) -> list[socket.socket]:
        """Return the connections without TLS, as to an emulator, where the client shows them."""
        found: list[Any] = list(getattr(self._client, "_producers", {}).values())
        for name in ("_handler", "_connection", "_transport", "sock"):
            found = [getattr(each, name, None) for each in found]
        return [each for each in found if isinstance(each, socket.socket)]
