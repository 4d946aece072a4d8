"""Minutes of random faults at a steady rate: nothing lost, nothing out of order, nothing grows.

`TM_SOAK_MINUTES` sets the duration for each bus, `TM_SOAK_RATE` the events per second of those that
take more, `TM_SOAK_SEED` repeats a run.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.event_hubs_process import EventHubsProcess
from tests.servers.kafka import Kafka
from tests.servers.kinesis import LOGIN, Kinesis
from tests.servers.nats import Nats
from tests.servers.plugin import unique_name
from tests.servers.redis import Redis
from tests.servers.tcp_proxy import MakeProxy, TcpProxy
from tests.soak.publishing_buses import (
    PARTITIONS,
    create_kinesis_stream,
    event_hubs_flags,
    kafka_flags,
    kinesis_flags,
    nats_flags,
    redis_flags,
)
from tests.soak.publishing_consumers import (
    EventHubsConsumer,
    KafkaConsumer,
    KinesisConsumer,
    NatsConsumer,
    RedisConsumer,
)
from tests.soak.publishing_faults import (
    event_hubs_faults,
    kinesis_faults,
    network_faults,
    redis_faults,
    server_faults,
)
from tests.soak.publishing_load import make_seed, record_minutes
from tests.soak.publishing_trial import Run, Trial

SECONDS = float(os.environ.get("TM_SOAK_MINUTES", "10")) * 60
EVENTS_PER_SECOND = float(os.environ.get("TM_SOAK_RATE", "20000"))
TIMEOUT_MS = "3000"
KINESIS_CALL_RECORDS = 500
"""In Kinesis' default mode, order may suffer within one call."""

pytestmark = [
    pytest.mark.soak,
    pytest.mark.broker,
    pytest.mark.timeout(SECONDS * 2 + 1800),
]


@pytest.fixture(scope="session")
def minute(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the minute that is published again and again."""
    folder = tmp_path_factory.mktemp("minute")
    record_minutes(folder, 1)
    return folder


class FaultContract:
    """What holds on every bus; a subclass says what can happen to it."""

    async def test_random_faults_lose_nothing_and_grow_nothing(
        self,
        trial: Trial,
        seed: int,
        minute: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        run = Run(trial, minute, tmp_path, seed)
        await run.run(SECONDS)
        with capsys.disabled():
            print(f"\n{run.figures}\n  seed {seed}")  # noqa: T201
        assert run.problems == []

    @pytest.fixture
    def seed(self) -> int:
        return make_seed()


class TestKafka(FaultContract):
    @pytest.fixture
    async def trial(self, kafka: Kafka, kafka_proxy: TcpProxy) -> Trial:
        topic = kafka.create_topic(unique_name("topic"), PARTITIONS)
        flags = kafka_flags(kafka_proxy.endpoint, topic)
        return Trial(
            name="kafka",
            flags=[*flags, "--kafka-request-timeout-ms", TIMEOUT_MS],
            faults=[*server_faults(kafka), *network_faults(kafka_proxy)],
            consumer=KafkaConsumer(kafka.address, topic),
            events_per_second=EVENTS_PER_SECOND,
        )


class TestRedis(FaultContract):
    @pytest.fixture
    async def trial(self, redis_server: Redis, redis_stream: str, tcp_proxy: MakeProxy) -> Trial:
        proxy = tcp_proxy(redis_server.endpoint)
        flags = redis_flags(redis_server.address_at(proxy.endpoint), redis_stream)
        faults = [*server_faults(redis_server), *network_faults(proxy), *redis_faults(redis_server)]
        return Trial(
            name="redis",
            flags=[*flags, "--redis-request-timeout-ms", TIMEOUT_MS],
            faults=faults,
            consumer=RedisConsumer(redis_server.address, redis_stream),
            events_per_second=EVENTS_PER_SECOND,
        )


class TestNats(FaultContract):
    @pytest.fixture
    async def trial(self, nats_server: Nats, nats_stream: str, tcp_proxy: MakeProxy) -> Trial:
        proxy = tcp_proxy(nats_server.endpoint)
        flags = nats_flags(nats_server.address_at(proxy.endpoint), nats_stream)
        return Trial(
            name="nats",
            flags=[*flags, "--nats-ack-timeout-ms", TIMEOUT_MS],
            faults=[*server_faults(nats_server), *network_faults(proxy)],
            consumer=NatsConsumer(nats_server.address, nats_stream),
            events_per_second=EVENTS_PER_SECOND,
        )


class TestKinesis(FaultContract):
    @pytest.fixture
    async def trial(self, kinesis: Kinesis, seed: int) -> Trial:
        stream = await create_kinesis_stream(kinesis.address, unique_name("stream"))
        flags = kinesis_flags(kinesis.address, stream)
        return Trial(
            name="kinesis",
            flags=[*flags, "--kinesis-request-timeout-ms", TIMEOUT_MS],
            faults=[*server_faults(kinesis), *kinesis_faults(kinesis, seed)],
            consumer=KinesisConsumer(f"http://{kinesis.server.endpoint}", stream),
            exchanges=("bitmex",),
            disorder=KINESIS_CALL_RECORDS,
            secrets=[LOGIN["aws_secret_access_key"]],
        )


class TestEventHubs(FaultContract):
    @pytest.fixture
    def trial(self, tcp_proxy: MakeProxy) -> Iterator[Trial]:
        with EventHubsProcess() as namespace:
            hub = namespace.create_hub(unique_name("hub"), PARTITIONS)
            proxy = tcp_proxy(namespace.endpoint)
            address = namespace.address_at(proxy.endpoint)
            _, _, key = address.partition("SharedAccessKey=")
            yield Trial(
                name="event-hubs",
                flags=[
                    *event_hubs_flags(address, hub),
                    *("--event-hubs-request-timeout-ms", TIMEOUT_MS),
                ],
                faults=[
                    *server_faults(namespace),
                    *network_faults(proxy),
                    *event_hubs_faults(namespace),
                ],
                consumer=EventHubsConsumer(namespace.directory / "hubs" / hub),
                exchanges=("bitmex",),
                secrets=[key.partition(";")[0]],
            )
