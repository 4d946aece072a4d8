"""Fixtures for tests that need a real bus.

Servers of the whole run start when the first test asks for one. A test may kill or pause them:
after it they are healed. Every test gets its own topic, stream, subject or hub.

Servers are imported where they start: a run of unit tests pays for no client library.
"""

from __future__ import annotations

import gc
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol, TypeVar

import pytest

from tests.servers import ports
from tests.servers.elsewhere import Elsewhere
from tests.servers.ports import free_port
from tests.servers.tcp_proxy import MakeProxy, TcpProxy

if TYPE_CHECKING:
    from tests.servers.event_hubs import EventHubs
    from tests.servers.kafka import Kafka, KafkaElsewhere
    from tests.servers.kafka_mock import KafkaMock
    from tests.servers.kinesis import Kinesis
    from tests.servers.lifecycle import Lifecycle
    from tests.servers.nats import Nats, NatsCluster
    from tests.servers.redis import Redis, RedisCluster
    from tests.servers.tls import Certificates

KAFKA_USERS = {"tester": "tester-secret"}
KAFKA_HUBS = (
    "Endpoint=sb://127.0.0.1/;SharedAccessKeyName=tests;SharedAccessKey=hub+tester/secret=="
)
"""The connection string that the broker takes as if it were an Event Hubs namespace."""

Server = TypeVar("Server", bound="Lifecycle")


class Healable(Protocol):
    """Something that a test may break."""

    def heal(self) -> None:
        """Undo what the test did."""


def unique_name(kind: str) -> str:
    """Return a name that no other test uses, legal on every bus."""
    return f"{kind}-{secrets.token_hex(6)}"


def _started(variable: str, make: Callable[[], Server]) -> Iterator[Server | Elsewhere]:
    """Yield the server that the environment names, or start one and end it."""
    if elsewhere := Elsewhere.from_environment(variable):
        yield elsewhere
        return
    with make() as server:
        yield server


Broken = TypeVar("Broken", bound=Healable)


def _healed(server: Broken) -> Iterator[Broken]:
    """Yield a server that is well, and make it well again."""
    server.heal()
    yield server
    server.heal()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Give an authority and a certificate for 127.0.0.1."""
    from tests.servers.tls import make_certificates

    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Give a port that refuses connections as long as the test runs."""
    with ports.closed_port() as port:
        yield port


@pytest.fixture
def tcp_proxy() -> Iterator[MakeProxy]:
    """Give a function that starts a TCP proxy before an endpoint."""
    with ExitStack() as proxies:
        yield lambda endpoint: proxies.enter_context(TcpProxy(endpoint))


@pytest.fixture(scope="session")
def kafka_of_run(certificates: Certificates) -> Iterator[Kafka | KafkaElsewhere]:
    """Start one Kafka broker for the run, with SASL, TLS and proxied listeners."""
    from tests.servers.kafka import HubsListener, Kafka, KafkaElsewhere

    if elsewhere := KafkaElsewhere.from_environment("TM_TEST_KAFKA"):
        yield elsewhere
        return
    hubs = HubsListener(
        connection_string=KAFKA_HUBS,
        certificates=certificates,
        proxy_address=f"127.0.0.1:{free_port()}",
    )
    with Kafka(
        users=KAFKA_USERS,
        certificates=certificates,
        proxy_address=f"127.0.0.1:{free_port()}",
        hubs=hubs,
    ) as broker:
        yield broker


@pytest.fixture
def kafka(kafka_of_run: Kafka) -> Iterator[Kafka]:
    """Give the run's Kafka broker and heal it afterwards."""
    yield from _healed(kafka_of_run)


@pytest.fixture
def kafka_proxy(kafka: Kafka) -> Iterator[TcpProxy]:
    """Give a TCP proxy that sees all traffic of clients which bootstrap from it."""
    _, _, port = str(kafka.proxy_address).rpartition(":")
    with TcpProxy(kafka.proxied_address, port=int(port)) as proxy:
        yield proxy


@pytest.fixture
def kafka_hubs_proxy(kafka: Kafka) -> Iterator[TcpProxy]:
    """Give a TCP proxy before the listener that takes the login of Event Hubs."""
    _, _, port = kafka.hubs_address.rpartition(":")
    with TcpProxy(kafka.proxied_hubs_address, port=int(port)) as proxy:
        yield proxy


@pytest.fixture
def kafka_topic(kafka: Kafka) -> str:
    """Give a topic of one partition."""
    return kafka.create_topic(unique_name("topic"))


@pytest.fixture
def kafka_mock() -> Iterator[KafkaMock]:
    """Start a mock cluster of three brokers that answer with errors on request."""
    from tests.servers.kafka_mock import KafkaMock

    with KafkaMock() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def redis_of_run() -> Iterator[Redis | Elsewhere]:
    """Start one Redis server for the run."""
    from tests.servers.redis import Redis

    yield from _started("TM_TEST_REDIS", Redis)


@pytest.fixture
def redis_server(redis_of_run: Redis) -> Iterator[Redis]:
    """Give the run's Redis server and heal it afterwards."""
    yield from _healed(redis_of_run)


@pytest.fixture
def redis_stream() -> str:
    """Give a stream key; Redis creates the stream with its first entry."""
    return unique_name("stream")


@pytest.fixture(scope="session")
def redis_cluster_of_run() -> Iterator[RedisCluster]:
    """Start one Redis cluster of three masters for the run."""
    from tests.servers.redis import RedisCluster

    with RedisCluster() as cluster:
        yield cluster


@pytest.fixture
def redis_cluster(redis_cluster_of_run: RedisCluster) -> Iterator[RedisCluster]:
    """Give the run's Redis cluster and heal it afterwards."""
    yield from _healed(redis_cluster_of_run)


@pytest.fixture(scope="session")
def nats_of_run() -> Iterator[Nats | Elsewhere]:
    """Start one NATS server with JetStream for the run."""
    from tests.servers.nats import Nats

    yield from _started("TM_TEST_NATS", Nats)


@pytest.fixture
def nats_server(nats_of_run: Nats) -> Iterator[Nats]:
    """Give the run's NATS server and heal it afterwards."""
    yield from _healed(nats_of_run)


@pytest.fixture
async def nats_stream(nats_server: Nats) -> str:
    """Give a JetStream stream whose name is also the first token of its subjects."""
    from tests.servers.readers import connect_nats

    name = unique_name("stream")
    async with await connect_nats(nats_server.address) as client:
        await client.jetstream().add_stream(name=name, subjects=[name, f"{name}.>"])
    return name


@pytest.fixture(scope="session")
def nats_cluster_of_run() -> Iterator[NatsCluster]:
    """Start one NATS cluster of three servers for the run."""
    from tests.servers.nats import NatsCluster

    with NatsCluster() as cluster:
        yield cluster


@pytest.fixture
def nats_cluster(nats_cluster_of_run: NatsCluster) -> Iterator[NatsCluster]:
    """Give the run's NATS cluster and heal it afterwards."""
    yield from _healed(nats_cluster_of_run)


@pytest.fixture(scope="session")
def kinesis_of_run() -> Iterator[Kinesis | Elsewhere]:
    """Start one Kinesis server behind its fault proxy for the run."""
    from tests.servers.kinesis import Kinesis

    yield from _started("TM_TEST_KINESIS", Kinesis)


@pytest.fixture
def kinesis(kinesis_of_run: Kinesis) -> Iterator[Kinesis]:
    """Give the run's Kinesis server and heal it afterwards."""
    yield from _healed(kinesis_of_run)


@pytest.fixture
async def kinesis_stream(kinesis: Kinesis) -> str:
    """Give an active stream of two shards."""
    from tests.servers.readers import kinesis_client

    name = unique_name("stream")
    async with kinesis_client(kinesis.address) as client:
        await client.create_stream(StreamName=name, ShardCount=2)
        waiter = client.get_waiter("stream_exists")
        await waiter.wait(StreamName=name, WaiterConfig={"Delay": 0.02, "MaxAttempts": 5000})
    return name


@pytest.fixture(scope="session")
def event_hubs_of_run() -> Iterator[EventHubs | Elsewhere]:
    """Start one Event Hubs namespace for the run."""
    from tests.servers.event_hubs import EventHubs

    yield from _started("TM_TEST_EVENT_HUBS", EventHubs)


@pytest.fixture
def event_hubs(event_hubs_of_run: EventHubs) -> Iterator[EventHubs]:
    """Give the run's Event Hubs namespace and heal it afterwards."""
    yield from _healed(event_hubs_of_run)


@pytest.fixture
def event_hub(event_hubs: EventHubs) -> str:
    """Give a hub of two partitions."""
    return event_hubs.create_hub(unique_name("hub"))


@pytest.fixture
def unclosed_sockets_allowed(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Let azure-eventhub forget the sockets of connections that failed, as it does."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        yield
        # Its log records hold the exceptions, and those the sockets, until the next test.
        caplog.get_records("call").clear()
        gc.collect()
