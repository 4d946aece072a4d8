"""Kill -9 at random moments: every accepted event reaches the consumer.

`TM_SOAK_EVENTS` sets how many events each test publishes at least, `TM_SOAK_SEED` repeats a run.
"""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.servers.event_hubs_process import EventHubsProcess
from tests.servers.kafka import Kafka
from tests.servers.kinesis import Kinesis
from tests.servers.nats import Nats
from tests.servers.plugin import unique_name
from tests.servers.readers import Received, read_kafka, read_kinesis, read_nats, read_redis
from tests.servers.redis import Redis
from tests.soak.publishing_buses import (
    PARTITIONS,
    SoakBus,
    create_kinesis_stream,
    event_hubs_flags,
    files_flags,
    kafka_flags,
    kinesis_flags,
    nats_flags,
    read_files,
    read_hub,
    redis_flags,
)
from tests.soak.publishing_faults import Killable
from tests.soak.publishing_job import Job
from tests.soak.publishing_kills import (
    LONGEST_PAUSE_SECONDS,
    Figures,
    kill_at_random,
    kill_job_at_random,
)
from tests.soak.publishing_load import EVENTS, CarefulLoad, Load, record_minutes, replay_all
from tests.soak.publishing_process import Server

pytestmark = [
    pytest.mark.soak,
    pytest.mark.broker,
    pytest.mark.timeout(900 + EVENTS / 100),
]

LONG_MS = 3_600_000
DEATHS_IN_A_ROW = 10
DELIVERY = ("--event-bus-drain-timeout-ms", str(LONG_MS))
"""Everything else as it is by default; the end of a test waits for what is left."""


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the minutes that are published."""
    folder = tmp_path_factory.mktemp("recordings")
    record_minutes(folder)
    return folder


class KillContract:
    """What holds on every bus; a subclass gives the bus."""

    async def test_killed_publisher_is_replaced_and_nobody_notices(
        self, bus: SoakBus, recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        figures = Figures(bus, capsys)
        async with Server(recordings, tmp_path, [*DELIVERY, *bus.flags]) as server:
            load, command = Load(server), server.command
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(load.run())
                await kill_at_random("publisher", command.kill_publisher, figures, load, server)
            assert await command.end() == 0, command.log_text[-2000:]
        await figures.check(load.answered, command.peak_mb)

    async def test_publisher_that_dies_ten_times_in_a_row_loses_nothing(
        self, bus: SoakBus, recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        figures = Figures(bus, capsys)
        async with Server(recordings, tmp_path, [*DELIVERY, *bus.flags]) as server:
            load, command = Load(server), server.command
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(load.run())
                await load.reach(EVENTS // 10)
                started = time.monotonic()
                for _ in range(DEATHS_IN_A_ROW):
                    # As soon as there is another one.
                    await command.kill_publisher()
                seconds = time.monotonic() - started
                figures.kills[f"publisher within {seconds:.0f} s"] = DEATHS_IN_A_ROW
            assert await command.end() == 0, command.log_text[-2000:]
        await figures.check(load.answered, command.peak_mb)

    async def test_killed_server_delivers_what_it_had_accepted(
        self, bus: SoakBus, recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        figures = Figures(bus, capsys)
        async with Server(recordings, tmp_path, [*DELIVERY, *bus.flags]) as server:
            load, command = CarefulLoad(server), server.command

            async def kill() -> None:
                load.begin_outage()
                await command.kill()
                await server.start()
                load.end_outage()

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(load.run())
                await kill_at_random("server", kill, figures, load, server)
            assert await command.end() == 0, command.log_text[-2000:]
        await figures.check(load.answered, command.peak_mb)

    async def test_killed_job_goes_on_until_all_is_published(
        self, bus: SoakBus, recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async with Server(recordings, tmp_path, []) as server:
            answered = await replay_all(server)
        figures = Figures(bus, capsys)
        job = Job(recordings, tmp_path, [*DELIVERY, *bus.flags])
        job.command.start()
        await kill_job_at_random(figures, job)
        assert await job.command.wait() == 0, job.command.log_text[-2000:]
        await figures.check(answered, job.command.peak_mb)


class BrokerKillContract(KillContract):
    """What holds where the bus is a process of its own."""

    async def test_killed_broker_has_everything_once_it_is_back(
        self,
        bus: SoakBus,
        broker: Killable,
        recordings: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        figures = Figures(bus, capsys)
        async with Server(recordings, tmp_path, [*DELIVERY, *bus.flags]) as server:
            load, command = Load(server), server.command

            async def kill() -> None:
                await asyncio.to_thread(broker.kill)
                if figures.chance.random() < 0.5:
                    await command.kill_publisher()
                    figures.kills["publisher with it"] += 1
                await asyncio.sleep(figures.chance.uniform(0, LONGEST_PAUSE_SECONDS))
                await asyncio.to_thread(broker.start)

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(load.run())
                await kill_at_random("broker", kill, figures, load, server)
            assert await command.end() == 0, command.log_text[-2000:]
        await figures.check(load.answered, command.peak_mb)


class TestFiles(KillContract):
    @pytest.fixture
    def bus(self, tmp_path: Path) -> SoakBus:
        folder = tmp_path / "bus"
        return SoakBus("files", files_flags(folder), lambda: read_files(folder / "bronze"))


class TestKafka(BrokerKillContract):
    @pytest.fixture
    def broker(self, kafka: Kafka) -> Killable:
        return kafka

    @pytest.fixture
    def bus(self, kafka: Kafka) -> SoakBus:
        topic = kafka.create_topic(unique_name("topic"), PARTITIONS)
        flags = kafka_flags(kafka.address, topic)
        return SoakBus("kafka", flags, lambda: read_kafka(kafka.address, topic))


class TestRedis(BrokerKillContract):
    @pytest.fixture
    def broker(self, redis_server: Redis) -> Killable:
        return redis_server

    @pytest.fixture
    def bus(self, redis_server: Redis, redis_stream: str) -> Iterator[SoakBus]:
        address = redis_server.address
        flags = redis_flags(address, redis_stream)
        # All entries come in one reply, which takes the server longer than clients wait by default.
        read = partial(read_redis, address, redis_stream, socket_timeout=None)
        yield SoakBus("redis", flags, read)
        with redis_server.client() as client:
            client.delete(redis_stream)


class TestNats(BrokerKillContract):
    @pytest.fixture
    def broker(self, nats_server: Nats) -> Killable:
        return nats_server

    @pytest.fixture
    def bus(self, nats_server: Nats, nats_stream: str) -> SoakBus:
        flags = nats_flags(nats_server.address, nats_stream)
        return SoakBus("nats", flags, lambda: read_nats(nats_server.address, nats_stream))


class TestKinesis(BrokerKillContract):
    @pytest.fixture
    def broker(self, kinesis: Kinesis) -> Killable:
        return kinesis

    @pytest.fixture
    async def bus(self, kinesis: Kinesis) -> SoakBus:
        stream = await create_kinesis_stream(kinesis.address, unique_name("stream"))
        flags = kinesis_flags(kinesis.address, stream)
        return SoakBus("kinesis", flags, lambda: read_kinesis(kinesis.address, stream))


@pytest.mark.usefixtures("unclosed_sockets_allowed")
class TestEventHubs(BrokerKillContract):
    @pytest.fixture
    def broker(self) -> Iterator[EventHubsProcess]:
        # In a process of its own: it shares no interpreter with the client.
        with EventHubsProcess() as namespace:
            yield namespace

    @pytest.fixture
    def bus(self, broker: EventHubsProcess) -> SoakBus:
        hub, address = broker.create_hub(unique_name("hub"), PARTITIONS), broker.address
        flags = event_hubs_flags(address, hub)

        async def read() -> list[Received]:
            return await read_hub(address, hub, broker.events_total(hub))

        return SoakBus("event-hubs", flags, read)
