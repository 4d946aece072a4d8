"""Kill -9 at random moments: every accepted event reaches the consumer.

`TM_SOAK_EVENTS` sets how many events each test publishes at least, `TM_SOAK_SEED` repeats a run.
"""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
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
from tests.soak.publishing_evidence import examine
from tests.soak.publishing_job import Job
from tests.soak.publishing_load import (
    EVENTS,
    CarefulLoad,
    Load,
    make_seed,
    record_minutes,
    replay_all,
)
from tests.soak.publishing_process import Server

pytestmark = [
    pytest.mark.soak,
    pytest.mark.broker,
    pytest.mark.timeout(900 + EVENTS / 100),
]

KILLS = 8
KILLS_AFTERWARDS = 4
LONGEST_PAUSE_SECONDS = 2.0
SHORT_PAUSE_SECONDS = 0.3
LONG_MS = 3_600_000
DEATHS_IN_A_ROW = 10
DELIVERY = ("--event-bus-drain-timeout-ms", str(LONG_MS))
"""Everything else as it is by default; the end of a test waits for what is left."""

Kill = Callable[[], Awaitable[None]]


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the minutes that are published."""
    folder = tmp_path_factory.mktemp("recordings")
    record_minutes(folder)
    return folder


class Figures:
    """Counts what happens in one test, and prints it."""

    def __init__(self, bus: SoakBus, capsys: pytest.CaptureFixture[str]) -> None:
        self._bus = bus
        self._capsys = capsys
        self._started = time.monotonic()
        self.seed = make_seed()
        self.chance = random.Random(self.seed)
        self.kills: Counter[str] = Counter()

    async def check(self, answered: bytes, peak_mb: float) -> None:
        """Read the bus, fail on everything that is wrong with it, and print the figures."""
        seconds = time.monotonic() - self._started
        received = await self._bus.read()
        evidence = examine(received, answered)
        self._print(
            f"{self._bus.name}, {self._describe_kills()}: {evidence.events:,} events accepted,"
            f" {len(received):,} at the consumer, {evidence.duplicates:,} of them again,"
            f" {evidence.lost:,} lost, {seconds:.0f} s, publisher peak {peak_mb:.0f} MB"
        )
        assert not evidence.problems, "\n".join([f"seed {self.seed}", *evidence.problems])
        assert evidence.events >= EVENTS
        assert self.kills, "it ended before it was killed"

    def _describe_kills(self) -> str:
        return " and ".join(f"{what} killed {times} times" for what, times in self.kills.items())

    def _print(self, text: str) -> None:
        with self._capsys.disabled():
            print(f"\n{text}, seed {self.seed}")  # noqa: T201


async def kill_at_random(
    what: str, kill: Kill, figures: Figures, load: Load, server: Server
) -> None:
    """Kill while clients are served, and while the bus catches up with them."""
    chance = figures.chance
    for lines in sorted(chance.sample(range(EVENTS), KILLS)):
        await load.reach(lines)
        await asyncio.sleep(chance.uniform(0, SHORT_PAUSE_SECONDS))
        await kill()
        figures.kills[what] += 1
    await load.reach(math.inf)
    for _ in range(KILLS_AFTERWARDS):
        await asyncio.sleep(chance.uniform(0, LONGEST_PAUSE_SECONDS))
        if not await server.backlog():
            return
        await kill()
        figures.kills[what] += 1


async def kill_job_at_random(figures: Figures, job: Job) -> None:
    """Kill a job or only its publisher, until it has ended or was killed often enough."""
    chance, settled = figures.chance, 0
    for minutes in sorted(chance.sample(range(job.minutes), KILLS)):
        is_whole = chance.random() < 0.5
        # A publisher that dies before it is ready is a failed start, not an accident.
        if not await job.is_beyond(minutes if is_whole else max(minutes, settled)):
            return
        await asyncio.sleep(chance.uniform(0, SHORT_PAUSE_SECONDS))
        if not job.command.is_running:
            return
        settled = job.settled_minutes()
        if is_whole:
            await job.command.kill()
            job.command.start()
        else:
            await job.command.kill_publisher()
        figures.kills["job" if is_whole else "publisher of a job"] += 1


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


class TestFiles(KillContract):
    @pytest.fixture
    def bus(self, tmp_path: Path) -> SoakBus:
        folder = tmp_path / "bus"
        return SoakBus("files", files_flags(folder), lambda: read_files(folder / "bronze"))


class TestKafka(KillContract):
    @pytest.fixture
    def bus(self, kafka: Kafka) -> SoakBus:
        topic = kafka.create_topic(unique_name("topic"), PARTITIONS)
        flags = kafka_flags(kafka.address, topic)
        return SoakBus("kafka", flags, lambda: read_kafka(kafka.address, topic))


class TestRedis(KillContract):
    @pytest.fixture
    def bus(self, redis_server: Redis, redis_stream: str) -> Iterator[SoakBus]:
        address = redis_server.address
        flags = redis_flags(address, redis_stream)
        # All entries come in one reply, which takes the server longer than clients wait by default.
        read = partial(read_redis, address, redis_stream, socket_timeout=None)
        yield SoakBus("redis", flags, read)
        with redis_server.client() as client:
            client.delete(redis_stream)


class TestNats(KillContract):
    @pytest.fixture
    def bus(self, nats_server: Nats, nats_stream: str) -> SoakBus:
        flags = nats_flags(nats_server.address, nats_stream)
        return SoakBus("nats", flags, lambda: read_nats(nats_server.address, nats_stream))


class TestKinesis(KillContract):
    @pytest.fixture
    async def bus(self, kinesis: Kinesis) -> SoakBus:
        stream = await create_kinesis_stream(kinesis.address, unique_name("stream"))
        flags = kinesis_flags(kinesis.address, stream)
        return SoakBus("kinesis", flags, lambda: read_kinesis(kinesis.address, stream))


@pytest.mark.usefixtures("unclosed_sockets_allowed")
class TestEventHubs(KillContract):
    @pytest.fixture
    def bus(self) -> Iterator[SoakBus]:
        # In a process of its own: it shares no interpreter with the client.
        with EventHubsProcess() as namespace:
            hub, address = namespace.create_hub(unique_name("hub"), PARTITIONS), namespace.address
            flags = event_hubs_flags(address, hub)

            async def read() -> list[Received]:
                return await read_hub(address, hub, namespace.events_total(hub))

            yield SoakBus("event-hubs", flags, read)
