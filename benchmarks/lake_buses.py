"""Measure Bronze ingest from buses: events per CPU second of driver, JVM and Python workers.

Run with `python -m benchmarks.lake_buses [kafka redis ...]`. Every round reads the whole bus into a
new table; its first batches warm the JVM and do not count, nor do servers and what fills them.
"""

import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date
from pathlib import Path
from typing import NamedTuple

import psutil
import pyarrow as pa
import structlog
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.bronze import encode, trade
from tardis_machine.bronze.envelope import identities
from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.buses.results import Outcome
from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.lake.bronze.ingest import ingest_writer
from tardis_machine.lake.buses import bus_of
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.source import read_range
from tardis_machine.lake.progress import rows_of
from tardis_machine.lake.settings import SparkSettings
from tardis_machine.lake.spark.session import open_session
from tardis_machine.lake.store.store import Store
from tardis_machine.model.settings import Secret
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.delivery.events import address
from tardis_machine.sinks.registry import make_sink
from tests.servers.kafka import Kafka
from tests.servers.nats import Nats
from tests.servers.redis import Redis

WARM_EVENTS = 400_000
MEASURED_EVENTS = 800_000
ROUNDS = 3
"""The compiler of the JVM is busy in the first ones; the best one counts."""
BATCH_EVENTS = 400_000
DISTINCT_EVENTS = 20_000
PARTITIONS = 4
QUERIES = 5
POLL_SECONDS = 0.2


def make_events(settings: BusSettings) -> list[Event]:
    """Return trades as the sender hands them to a sink."""
    envelopes = encode([trade(number) for number in range(DISTINCT_EVENTS)])
    delivery_ids = [f"bench-t3k9x2-{number}" for number in range(DISTINCT_EVENTS)]
    return address(envelopes, settings.router(), identities(envelopes), delivery_ids, 0.0)


def fill(settings: BusSettings, count: int) -> None:
    """Publish so many trades."""
    delivery = EventBusSettings(producer_id="bench", message_id="off")
    sink = make_sink(settings, settings.resolve(delivery))
    sink.open()
    events = make_events(settings)
    size = settings.max_batch_size
    for done in range(0, count, size):
        place = done % (len(events) - size)
        results = sink.send(events[place : place + min(size, count - done)])
        if any(result.outcome is not Outcome.OK for result in results):
            raise SystemExit(f"not stored: {set(results)}")
    sink.close(5)


class Filled(NamedTuple):
    """A bus to read, and the process that serves it."""

    settings: BusSettings
    server_pid: int | None = None


def cpu_seconds(left_out: int | None) -> float:
    """Return the CPU seconds of this process and all below it, ended ones too, without one."""
    root = psutil.Process()
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        if process.pid != left_out:
            try:
                total += sum(process.cpu_times()[:4])
            except psutil.NoSuchProcess:
                continue
    return total


class Watch:
    """Sums up what a query has read, batch by batch."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._batches: dict[int, int] = {}

    def wait(self, rows: int) -> int:
        """Wait for the end of the batch that reaches so many rows, and return how many they are."""
        while sum(self._batches.values()) < rows:
            if (error := self._query.exception()) is not None:
                raise error
            if (progress := self._query.lastProgress) is not None:
                self._batches[progress.batchId] = rows_of(progress)
            time.sleep(POLL_SECONDS)
        return sum(self._batches.values())


def ingest_rate(spark: SparkSession, bus: Filled) -> float:
    """Return events per CPU second, from the bus to Bronze."""
    with tempfile.TemporaryDirectory() as root:
        store = Store(spark, root)
        policy = ReadPolicy(max_rows=BATCH_EVENTS)
        query = ingest_writer(store, bus.settings, policy).start()
        try:
            watch = Watch(query)
            warm = watch.wait(WARM_EVENTS)
            before = cpu_seconds(bus.server_pid)
            total = watch.wait(WARM_EVENTS + MEASURED_EVENTS)
            spent = cpu_seconds(bus.server_pid) - before
        finally:
            query.stop()
    return (total - warm) / spent


def reader_rate(settings: BusSettings) -> float | None:
    """Return events per CPU second of the reader alone, up to Arrow; None: it is Spark's."""
    if isinstance(settings, KafkaSettings):
        return None
    bus, policy = bus_of(settings), ReadPolicy()
    with bus.planner(policy) as planner:
        start = planner.begin()
        ranges = planner.ranges(start, planner.latest(start, BATCH_EVENTS))
    before = time.process_time()
    rows = sum(batch.num_rows for each in ranges for batch in read_range(bus, policy, each))
    return rows / (time.process_time() - before)


@contextmanager
def kafka_bus() -> Iterator[Filled]:
    with Kafka() as server:
        topic = server.create_topic("bronze", partitions=PARTITIONS)
        yield Filled(KafkaSettings(brokers=(server.address,), topic=topic), server.pid)


@contextmanager
def redis_bus() -> Iterator[Filled]:
    with Redis(is_durable=False) as server:
        yield Filled(RedisSettings(url=Secret(server.address), stream="bronze"), server.pid)


@contextmanager
def nats_bus() -> Iterator[Filled]:
    with Nats() as server:
        settings = NatsSettings(
            servers=(server.address,), subject="bronze", stream="bronze", create_stream=True
        )
        yield Filled(settings, server.pid)


@contextmanager
def files_bus() -> Iterator[Filled]:
    with tempfile.TemporaryDirectory() as folder:
        yield Filled(FilesSettings(dir=Path(folder)))


class Measured(NamedTuple):
    """How to fill a bus, and what reading it should reach."""

    make: Callable[[], AbstractContextManager[Filled]]
    target: int


BUSES = {
    "kafka": Measured(kafka_bus, 120_000),
    "redis": Measured(redis_bus, 60_000),
    "nats": Measured(nats_bus, 50_000),
    "files": Measured(files_bus, 170_000),
}


def measure(spark: SparkSession, name: str) -> str:
    """Return the line of one bus."""
    measured = BUSES[name]
    with measured.make() as bus:
        fill(bus.settings, WARM_EVENTS + MEASURED_EVENTS)
        alone = reader_rate(bus.settings)
        rate = max(ingest_rate(spark, bus) for _ in range(ROUNDS))
    reader = "-" if alone is None else f"{alone:,.0f}/s"
    return f"{name:24} {reader:>14} {rate:12,.0f}/s {measured.target:12,}/s"


def first_answer() -> tuple[float, float]:
    """Return wall and CPU seconds of `lake query` in a fresh process, files in the disk cache."""
    with tempfile.TemporaryDirectory() as root:
        rows = pa.table({"price": [1.0] * 100_000, "date": [date(2024, 3, 1)] * 100_000})
        write_deltalake(f"{root}/silver/trades", rows, partition_by=["date"])
        words = ["lake", "query", "--lake", root, "select avg(price) from silver.trades"]
        times = []
        for _ in range(QUERIES):
            started, before = time.monotonic(), os.times()
            command = [sys.executable, "-m", "tardis_machine", *words]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            after = os.times()
            spent = sum(after[2:4]) - sum(before[2:4])
            times.append((time.monotonic() - started, spent))
    return min(times)


def main() -> None:
    """Print the table."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    log = Path(tempfile.gettempdir()) / f"lake-buses-{os.getpid()}.log"
    print(f"{'trades to Bronze, hot':24} {'reader alone':>14} {'to Bronze':>14} {'target':>14}")
    with open_session(SparkSettings(), profile="throughput", log_path=log) as spark:
        for name in sys.argv[1:] or BUSES:
            print(measure(spark, name), flush=True)
    log.unlink(missing_ok=True)
    wall, spent = first_answer()
    print(f"\nfirst answer of lake query: {wall:.2f} s, {spent:.2f} s of CPU; target 1 s")


if __name__ == "__main__":
    main()
