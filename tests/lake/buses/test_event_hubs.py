"""The reader of Event Hubs, held to the contract of all readers."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from proton import Message

from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.event_hubs.reader import EventHubsBus
from tardis_machine.lake.errors import BusError, BusUnavailableError, DataLossError
from tardis_machine.model.settings import Secret
from tests.contract.bus_readers import (
    POLICY,
    BusReaderContract,
    MicroBatches,
    ReadableBus,
    all_envelopes,
    numbered,
)
from tests.contract.sinks import wait_until
from tests.servers.event_hubs import EventHubs
from tests.servers.event_hubs_store import Partition
from tests.servers.plugin import unique_name
from tests.servers.tcp_proxy import TcpProxy
from tests.servers.tls import Certificates

pytestmark = pytest.mark.broker

PARTITIONS = 2


class ShortPartition(Partition):
    """A partition that lets go of its oldest events, as the service does after some days."""

    first = 0

    def start_of(self, selector: str) -> int:
        return max(self.first, super().start_of(selector))


class ShortMemory(EventHubs):
    """A namespace whose hubs can forget."""

    def create_hub(self, name: str, partitions: int = PARTITIONS) -> str:
        super().create_hub(name, partitions)
        hub = self.hub(name)
        assert hub is not None
        hub.partitions[:] = [ShortPartition() for _ in range(partitions)]
        return name

    def store(self, name: str, messages: Sequence[bytes]) -> None:
        """Add events to the partitions of a hub in turn."""
        for number, partition in enumerate(self._partitions(name)):
            self.do(lambda part=partition, n=number: part.append(messages[n::PARTITIONS]))

    def forget(self, name: str) -> None:
        """Let go of every event that a hub holds."""
        for partition in self._partitions(name):
            partition.first = len(partition.events)

    def answer_request(self, path: str, request: Message) -> Message:
        answer = super().answer_request(path, request)
        if isinstance(answer.body, dict) and "begin_sequence_number" in answer.body:
            parts = self._partitions(str(request.properties["name"]))
            first = parts[int(str(request.properties["partition"]))].first
            last = int(answer.body["last_enqueued_sequence_number"])
            changes = {"begin_sequence_number": first, "is_partition_empty": first > last}
            answer.body = {**answer.body, **changes}
        return answer

    def _partitions(self, name: str) -> list[ShortPartition]:
        hub = self.hub(name)
        assert hub is not None
        return hub.partitions  # type: ignore[return-value]


class EventHubsUnderTest:
    """A hub of two partitions."""

    has_nulls = False
    is_anew_after_trim = False
    keeps_planned = False
    has_times = True
    has_server = True

    def __init__(self, server: ShortMemory) -> None:
        self.server = server
        self.hub = server.create_hub(unique_name("hub"))
        self.settings = EventHubsSettings(
            connection_string=Secret(server.address),
            event_hub_name=self.hub,
            request_timeout_ms=10_000,
        )
        self.bus = EventHubsBus(self.settings)
        self.secrets = [self.settings.fields["sharedaccesskey"]]

    def write(self, envelopes: Sequence[bytes | None]) -> None:
        # Straight into the store: a producer takes a second to connect.
        encoded = [Message(envelope or b"", inferred=True).encode() for envelope in envelopes]
        self.server.store(self.hub, encoded)

    def trim(self) -> None:
        self.server.forget(self.hub)

    def take_down(self) -> None:
        self.server.stop()

    def bring_back(self) -> None:
        self.server.start()


@pytest.fixture(scope="module")
def namespace() -> Iterator[ShortMemory]:
    with ShortMemory() as server:
        yield server


@pytest.fixture
def readable(namespace: ShortMemory, unclosed_sockets_allowed: None) -> Iterator[ReadableBus]:
    namespace.heal()
    yield EventHubsUnderTest(namespace)
    namespace.heal()


class TestEventHubs(BusReaderContract):
    pass


@pytest.mark.parametrize("count", [10, 30])
def test_hub_made_anew_is_noticed_however_long_it_is(
    readable: EventHubsUnderTest, count: int
) -> None:
    readable.write(numbered(20))
    before = MicroBatches(readable.bus, POLICY)
    before.run()
    readable.server.create_hub(readable.hub)
    readable.write(numbered(count, first=20))
    with pytest.raises(DataLossError, match="recreated"):
        MicroBatches(readable.bus, POLICY, before.offset).run()
    after = MicroBatches(readable.bus, ReadPolicy(fails_on_loss=False), before.offset).run()
    assert all_envelopes(after) == Counter(numbered(count, first=20))


def test_missing_hub_is_named(readable: EventHubsUnderTest) -> None:
    settings: Any = {"connection_string": readable.settings.connection_string}
    bus = EventHubsBus(EventHubsSettings(event_hub_name="nowhere", **settings))
    with pytest.raises(BusError, match="nowhere"):
        MicroBatches(bus, POLICY).run()


def test_refused_login_shows_no_key(readable: EventHubsUnderTest) -> None:
    readable.write(numbered(1))
    readable.server.refuse_tokens()
    with pytest.raises(BusError, match="rejected") as caught:
        MicroBatches(readable.bus, POLICY).run()
    assert readable.secrets[0] not in str(caught.value)


def test_hub_behind_tls_is_read(readable: EventHubsUnderTest, certificates: Certificates) -> None:
    readable.write(numbered(20))
    with TcpProxy(readable.server.endpoint, certificates=certificates) as proxy:
        settings = by_tls(readable, proxy.endpoint, ca=certificates.ca)
        rows = MicroBatches(EventHubsBus(settings), POLICY).run()
    assert all_envelopes(rows) == Counter(numbered(20))


def test_client_before_a_silent_peer_leaves_nothing_behind(readable: EventHubsUnderTest) -> None:
    with socket.create_server(("127.0.0.1", 0)) as peer:
        endpoint = f"127.0.0.1:{peer.getsockname()[1]}"
        client = EventHubsBus(by_tls(readable, endpoint, request_timeout_ms=100)).connect()
        for _ in range(3):
            with pytest.raises(BusUnavailableError):
                client.spans()
        wait_until(
            lambda: all(thread.name != "event-hubs" for thread in threading.enumerate()),
            "the threads left behind end",
        )


def by_tls(bus: EventHubsUnderTest, endpoint: str, **options: Any) -> EventHubsSettings:
    """Return the settings of a bus for another way to it."""
    return replace(
        bus.settings,
        connection_string=Secret(bus.server.tls_address),
        custom_endpoint=f"sb://{endpoint}",
        **options,
    )
