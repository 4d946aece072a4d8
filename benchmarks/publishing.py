"""Publishing: what it costs the server, and how fast the publisher process is on each bus.

The server part replays the same minutes over HTTP with publishing off, to a live broker and to a
dead one, and compares the CPU of the server process alone. The publisher part counts events per CPU
second of the publisher process, from NDJSON to the acknowledgement of a real local server, and once
more for a backlog that was written while that server was down.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.processes import free_ports, running, wait_until_healthy
from benchmarks.publishing_share import client_share
from benchmarks.replay import SCENARIOS, Feed, replay, write_feed
from tardis_machine.app.api import replay_normalized
from tardis_machine.app.publishing.bootstrap import Bootstrap
from tardis_machine.app.publishing.wiring import PROCESS_MODULE, publisher_client
from tardis_machine.app.settings.keywords import settings_of
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.sinks.publisher.client import PublisherClient
from tardis_machine.sinks.publisher.process import PublisherProcess, running_process
from tardis_machine.sinks.storage.positions import PositionFile
from tardis_machine.telemetry.logs import LogSettings
from tests.servers.event_hubs import EventHubs
from tests.servers.kafka import HubsListener, Kafka
from tests.servers.kinesis import Kinesis
from tests.servers.nats import Nats
from tests.servers.plugin import KAFKA_HUBS
from tests.servers.readers import connect_nats, kinesis_client
from tests.servers.redis import Redis
from tests.servers.tls import make_certificates
from tests.soak.publishing_faults import Killable

ROOT = Path(__file__).parent.parent
SERVER = f"{sys.executable} -m tardis_machine serve --log-format json"
NORMALIZED = next(scenario for scenario in SCENARIOS if scenario.path == "/replay-normalized")
TARGETS = {
    "files": 200_000,
    "kafka": 170_000,
    "redis": 130_000,
    "nats": 130_000,
    "event-hubs by kafka": 150_000,
}
_SCHEDULED_TIME = 2
LOOK_SECONDS = 0.5
IDLE_SHARE = 0.1
"""Less of a core is used by a process that only looks whether there is work."""
PACED_EVENTS_PER_SECOND = 20_000
PACED_SECONDS = 5
CATCH_UP_SHARE = 0.8
"""Part of its usual rate that a bus is to reach after an outage."""
META = {"request_id": "bench", "transport": "job", "route": "publish", "app_version": "0"}


def own_cpu_seconds(pid: int) -> float:
    """Return user and system seconds of one process, without its children.

    By the CPU clock that Linux has for each process: the figures of a process table are in steps of
    10 ms, a fiftieth of a replay.
    """
    return time.clock_gettime(~pid << 3 | _SCHEDULED_TIME)


def replay_cpu_us(port: int, process: psutil.Process, feed: Feed) -> float:
    """Return the CPU of the server process per message of one replay."""
    before = own_cpu_seconds(process.pid)
    asyncio.run(replay(port, NORMALIZED, feed))
    used = own_cpu_seconds(process.pid) - before
    wait_until_idle(process)
    return used / feed.messages * 1e6


def wait_until_idle(process: psutil.Process) -> None:
    """Wait until the publisher process of a server has nothing to do."""
    used, share = 0.0, 1.0
    while share > IDLE_SHARE:
        time.sleep(LOOK_SECONDS)
        before, used = used, sum(own_cpu_seconds(each.pid) for each in process.children())
        share = (used - before) / LOOK_SECONDS


def measure_server(folder: Path, minutes: int, rate: int, runs: int) -> None:
    """Print the server's CPU per message with and without publishing.

    Servers replay in turn, each once before it counts: a first replay makes memory, which is no
    matter of publishing.
    """
    cache = folder / "cache"
    feed = write_feed(cache, "bitmex", minutes, rate)
    with Kafka() as broker, Redis() as second, ExitStack() as servers:
        broker.create_topic("bronze")
        others = ["--redis-url", second.address, "--redis-stream", "bronze"]
        modes = {
            "off": [],
            "live broker": to_kafka(broker.address, folder / "live"),
            "dead broker": to_kafka(f"127.0.0.1:{free_ports()}", folder / "dead"),
            "three buses": [
                *to_kafka(broker.address, folder / "three"),
                *(*others, "--files-dir", str(folder / "bus")),
            ],
        }
        costs: dict[str, list[float]] = {mode: [] for mode in modes}
        started = {mode: servers.enter_context(server(cache, modes[mode])) for mode in modes}
        for _ in range(1 + runs):
            for mode, (port, process) in started.items():
                costs[mode].append(replay_cpu_us(port, process, feed))
    print(f"server process, HTTP trade + book_change, {feed.messages:,} messages, {runs} replays")
    medians = {mode: statistics.median(each[1:]) for mode, each in costs.items()}
    for mode, cost in medians.items():
        least, target = min(costs[mode][1:]), "" if mode == "off" else "   target 1.10 ×"
        share = f"{cost / medians['off']:.2f} ×, least {least / min(costs['off'][1:]):.2f} ×"
        print(f"  {mode:12} {cost:6.2f} µs/message  {share}{target}", flush=True)


@contextmanager
def server(cache: Path, flags: list[str]) -> Iterator[tuple[int, psutil.Process]]:
    """Run a server and give its port and its process."""
    port = free_ports()
    command = [*SERVER.split(), "--port", str(port), "--cache-dir", str(cache), "--offline", *flags]
    with running(command, ROOT) as process:
        wait_until_healthy(port)
        yield port, psutil.Process(process.pid)


def to_kafka(brokers: str, folder: Path) -> list[str]:
    """Return flags that publish to Kafka and end without waiting for it."""
    spool = ["--event-bus-spool-dir", str(folder / "spool"), "--event-bus-drain-timeout-ms", "0"]
    return ["--kafka-brokers", brokers, "--kafka-topic", "bronze", *spool]


def event_chunks(cache: Path, minutes: int) -> list[bytes]:
    """Return NDJSON of trades and book changes, about a thousand lines each."""

    async def read() -> list[bytes]:
        stream = replay_normalized(
            "bitmex",
            "2024-03-01",
            f"2024-03-01T00:{minutes:02d}",
            data_types=["trade", "book_change"],
            cache_dir=str(cache),
            offline=True,
        )
        return [encode_lines(chunk) async for chunk in stream.chunks()]

    lines = b"".join(asyncio.run(read())).splitlines(keepends=True)
    return [b"".join(lines[start : start + 1000]) for start in range(0, len(lines), 1000)]


async def with_publisher(
    settings: PublishingSettings,
    folder: Path,
    body: Callable[[PublisherProcess, PublisherClient], Any],
) -> Any:
    """Run something with a publisher process and a connection to it."""
    bootstrap = Bootstrap(settings, LogSettings())
    async with (
        running_process(PROCESS_MODULE, bootstrap, folder, 30) as process,
        publisher_client(process.address, settings) as client,
    ):
        assert client is not None
        try:
            return await body(process, client)
        finally:
            process.drain()


def events_per_cpu_second(
    settings: PublishingSettings, folder: Path, chunks: list[bytes], repeats: int
) -> float:
    """Return events per CPU second of the publisher process, acknowledgements included."""

    async def body(process: PublisherProcess, client: PublisherClient) -> float:
        await publish(client, chunks[:1])
        pid = process.process_id
        assert pid is not None
        before = own_cpu_seconds(pid)
        for _ in range(repeats):
            await publish(client, chunks)
        used = own_cpu_seconds(pid) - before
        return sum(chunk.count(b"\n") for chunk in chunks) * repeats / used

    return float(asyncio.run(with_publisher(settings, folder, body)))


def catch_up_per_cpu_second(
    settings: PublishingSettings, folder: Path, chunks: list[bytes], repeats: int, server: Killable
) -> float:
    """Return events per CPU second of what was written while the server was down."""

    async def body(process: PublisherProcess, client: PublisherClient) -> float:
        await publish(client, chunks[:1])
        pid = process.process_id
        assert pid is not None
        await asyncio.to_thread(server.kill)
        for _ in range(repeats):
            await write(client, chunks)
        await asyncio.to_thread(server.start)
        before = own_cpu_seconds(pid)
        await client.wait_until_settled()
        used = own_cpu_seconds(pid) - before
        return sum(chunk.count(b"\n") for chunk in chunks) * repeats / used

    return float(asyncio.run(with_publisher(settings, folder, body)))


async def publish(client: PublisherClient, chunks: list[bytes]) -> None:
    """Publish chunks as one stream and wait for their acknowledgement."""
    await write(client, chunks)
    await client.wait_until_settled()


async def write(client: PublisherClient, chunks: list[bytes]) -> None:
    """Write chunks to the log as one stream."""
    stream = client.stream(Origin.REPLAY, META, waits=True)
    for chunk in chunks:
        await stream.publish(chunk)
    stream.close()


def paced_latency(settings: PublishingSettings, folder: Path, chunks: list[bytes]) -> list[float]:
    """Return the seconds from a chunk's writing to its acknowledgement at a steady rate."""
    lines = b"".join(chunks).splitlines(keepends=True)
    per_chunk = PACED_EVENTS_PER_SECOND // 100

    async def body(_: PublisherProcess, client: PublisherClient) -> list[float]:
        await publish(client, chunks[:1])
        stream = client.stream(Origin.REPLAY, META, waits=True)
        ends: deque[tuple[int, float]] = deque()
        position, log = position_files(folder)
        watching = asyncio.create_task(asyncio.to_thread(watch, position, ends))
        started = time.monotonic()
        for number in range(PACED_SECONDS * 100):
            await asyncio.sleep(max(0, started + number / 100 - time.monotonic()))
            first = number * per_chunk % (len(lines) - per_chunk)
            await stream.publish(b"".join(lines[first : first + per_chunk]))
            end = log.load()
            assert end is not None
            ends.append((end.offset, time.monotonic()))
        ends.append((-1, 0.0))
        return await watching

    return list(asyncio.run(with_publisher(settings, folder, body)))


def position_files(folder: Path) -> tuple[PositionFile, PositionFile]:
    """Return the positions of the bus and of the writer of the one log."""
    (bus,) = folder.glob("logs/*/*-*.position")
    (writer,) = folder.glob("logs/*/writer.position")
    return PositionFile(bus, is_writable=False), PositionFile(writer, is_writable=False)


def watch(position: PositionFile, ends: "deque[tuple[int, float]]") -> list[float]:
    """Return how long each end took until the position had passed it."""
    seconds = []
    while True:
        time.sleep(0.0003)
        now, place = time.monotonic(), position.load()
        while ends and place is not None and ends[0][0] <= place.offset:
            end, written_at = ends.popleft()
            if end < 0:
                return seconds
            seconds.append(now - written_at)


class RunningBus(NamedTuple):
    """A bus that can be published to."""

    options: dict[str, Any]
    server: Killable | None = None
    """Its server, where that can be killed."""


@contextmanager
def kafka(topic: str = "bronze") -> Iterator[RunningBus]:
    with Kafka() as server:
        server.create_topic(topic)
        yield RunningBus({"kafka": {"brokers": [server.address], "topic": topic}}, server)


@contextmanager
def redis() -> Iterator[RunningBus]:
    with Redis() as server:
        options = {"url": server.address, "stream": "bronze", "max_length": 100_000}
        yield RunningBus({"redis": options}, server)


@contextmanager
def nats() -> Iterator[RunningBus]:
    async def create(address: str) -> None:
        async with await connect_nats(address) as client:
            await client.jetstream().add_stream(name="bronze", subjects=["bronze.>"])

    with Nats() as server:
        asyncio.run(create(server.address))
        options = {"servers": [server.address], "subject": "bronze.events"}
        yield RunningBus({"nats": options}, server)


@contextmanager
def kinesis() -> Iterator[RunningBus]:
    async def create(address: str) -> None:
        async with kinesis_client(address) as client:
            await client.create_stream(StreamName="bronze", ShardCount=4)

    with Kinesis() as server:
        asyncio.run(create(server.address))
        time.sleep(1)
        keys = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}
        options = {"stream": "bronze", "endpoint_url": server.address, "max_shard_rate": 0}
        yield RunningBus({"kinesis": {**options, **keys}}, server)


@contextmanager
def event_hubs() -> Iterator[RunningBus]:
    with EventHubs() as server:
        server.create_hub("bronze", 4)
        options = {"connection_string": server.address, "event_hub_name": "bronze"}
        yield RunningBus({"event_hubs": options})


@contextmanager
def event_hubs_by_kafka() -> Iterator[RunningBus]:
    with tempfile.TemporaryDirectory() as folder:
        certificates = make_certificates(Path(folder))
        hubs = HubsListener(connection_string=KAFKA_HUBS, certificates=certificates)
        with Kafka(hubs=hubs) as server:
            options = {"transport": "kafka", "custom_endpoint": server.hubs_address}
            login = {"connection_string": KAFKA_HUBS, "ca": str(certificates.ca)}
            hub = server.create_topic("bronze", 4)
            yield RunningBus({"event_hubs": {"event_hub_name": hub, **options, **login}}, server)


@contextmanager
def files() -> Iterator[RunningBus]:
    with tempfile.TemporaryDirectory() as folder:
        yield RunningBus({"files": {"dir": str(Path(folder) / "bus")}})


BUSES = {
    "files": files,
    "kafka": kafka,
    "redis": redis,
    "nats": nats,
    "event-hubs by kafka": event_hubs_by_kafka,
}
SLOW_BUSES = {"kinesis": kinesis, "event-hubs": event_hubs}


def measure_publisher(folder: Path, chunks: list[bytes], repeats: int, chosen: set[str]) -> None:
    """Print events per CPU second of the publisher process on each bus."""
    print("publisher process, NDJSON to acknowledgement, events per CPU second")
    for name, start in BUSES.items():
        if name not in chosen:
            continue
        with start() as bus:
            settings = settings_of(PublishingSettings, bus.options)
            rate = events_per_cpu_second(settings, folder / name, chunks, repeats)
            print(f"  {name:20} {rate:10,.0f}   target {TARGETS[name]:,}", flush=True)
            if name == "kafka":
                times = sorted(paced_latency(settings, folder / "paced", chunks))
                p99 = statistics.quantiles(times, n=100)[98]
                print(
                    f"  kafka at {PACED_EVENTS_PER_SECOND:,} events/s, to the acknowledgement: "
                    f"p50 {statistics.median(times) * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms",
                    flush=True,
                )
            if bus.server is not None:
                place = folder / f"{name}-outage"
                rate = catch_up_per_cpu_second(settings, place, chunks, repeats, bus.server)
                target = TARGETS[name] * CATCH_UP_SHARE
                print(
                    f"  {'  after an outage':20} {rate:10,.0f}   target {target:,.0f}", flush=True
                )


def measure_slow_buses(folder: Path, chunks: list[bytes], chosen: set[str]) -> None:
    """Print rate and the client library's share of the CPU, where the library is the cost."""
    for name, start in SLOW_BUSES.items():
        if name not in chosen:
            continue
        with start() as bus:
            settings = settings_of(PublishingSettings, bus.options)
            rate = events_per_cpu_second(settings, folder / name, chunks[:5], 1)
            share = client_share(settings, folder / f"{name}-share", chunks[:5])
            print(
                f"  {name:20} {rate:10,.0f}   client library {share:.0%} of the CPU, ours "
                f"{1 - share:.0%}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=5)
    parser.add_argument("--rate", type=int, default=500, help="messages per second and symbol")
    parser.add_argument("--runs", type=int, default=9, help="replays of each server")
    parser.add_argument("--bus", action="append", choices=[*BUSES, *SLOW_BUSES])
    parser.add_argument("--no-server", action="store_true", help="leave the server part out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not arguments.no_server:
            measure_server(folder, arguments.minutes, arguments.rate, arguments.runs)
        cache = folder / "events"
        feed = write_feed(cache, "bitmex", 1, arguments.rate * 2)
        chunks = event_chunks(cache, 1)
        print(f"calibration: {feed.round_trip_us:.2f} µs per orjson round trip of a raw message")
        chosen = set(arguments.bus or [*BUSES, *SLOW_BUSES])
        measure_publisher(folder, chunks, 3, chosen)
        measure_slow_buses(folder, chunks, chosen)


if __name__ == "__main__":
    main()
