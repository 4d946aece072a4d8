"""From a replay over every bus to Gold: each event once, equal to the HTTP response.

One replay is published to all buses. Each test brings its bus to a lake of its own. What follows
Bronze depends on no bus, so one goes all the way in every run, and each of them in the soak.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import duckdb
import polars
import pytest
from pyspark.sql import SparkSession

from tardis_machine.app.machine import TardisMachine
from tardis_machine.app.settings.commands import ServeSettings
from tardis_machine.app.settings.keywords import settings_of
from tardis_machine.bronze.decode import Decoder
from tardis_machine.lake.jobs import ALL, Job, JobSettings, Stage
from tardis_machine.lake.query.sql import Query
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.time import parse_us
from tardis_machine.sources.simulator import SimulatorSettings, simulate
from tests.lake.every_bus import BUSES, EveryBus, Options
from tests.servers.event_hubs import EventHubs
from tests.servers.kafka import Kafka
from tests.servers.kinesis import Kinesis
from tests.servers.nats import Nats
from tests.servers.plugin import unique_name
from tests.servers.ports import free_ports
from tests.servers.redis import Redis

pytestmark = [pytest.mark.broker, pytest.mark.spark]

REQUEST = {
    "exchange": "bitmex",
    "from": "2024-03-01",
    "to": "2024-03-01T00:02",
    "dataTypes": ["trade", "book_change", "liquidation", "quote_1s", "trade_bar_10s"],
    "withDisconnectMessages": True,
}
SILVER = {
    "trade": "silver.trades",
    "book_change": "silver.book_changes",
    "liquidation": "silver.liquidations",
    "book_snapshot": "silver.quotes",
    "trade_bar": "silver.trade_bars",
    "disconnect": "silver.control_events",
}
TRADE = ("symbol", "id", "price", "amount", "side")


@dataclass(frozen=True)
class Published:
    """One replay: what a client got, and where it was published."""

    lines: Sequence[str]
    buses: dict[str, Options]
    """The options of each bus, by its name."""

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes of BitMEX with a lost connection."""
    folder = tmp_path_factory.mktemp("recordings")
    simulate(
        SimulatorSettings(
            out=folder, minutes=2, seed=5, exchanges=("bitmex",), rate=10, with_gaps=True
        )
    )
    return folder


@pytest.fixture(scope="module")
def published(
    kafka_of_run: Kafka,
    redis_of_run: Redis,
    nats_of_run: Nats,
    kinesis_of_run: Kinesis,
    event_hubs_of_run: EventHubs,
    recordings: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Published:
    """Publish one replay to every bus."""
    name, folder = unique_name("lake"), tmp_path_factory.mktemp("published")
    servers = EveryBus(kafka_of_run, redis_of_run, nats_of_run, kinesis_of_run, event_hubs_of_run)

    async def prepare_and_replay() -> Published:
        buses = await servers.prepare(name, folder)
        return Published(await replay(buses, recordings, folder / "spool"), buses)

    # A loop of its own, whichever one the tests have.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, prepare_and_replay()).result()


async def replay(buses: dict[str, Options], recordings: Path, spool: Path) -> list[str]:
    """Replay over HTTP with publishing on; return the lines of the response."""
    options = {"event_bus": {"spool_dir": spool}} | buses
    machine = TardisMachine(port=free_ports(), offline=True, cache_dir=recordings, **options)
    async with machine, aiohttp.ClientSession() as session:
        url = f"{machine.http_url}/replay-normalized"
        async with session.get(url, params={"options": json.dumps(REQUEST)}) as response:
            return (await response.text()).splitlines()


@dataclass(frozen=True)
class Lake:
    """The lake of one bus."""

    spark: SparkSession
    root: str
    """A path or a URI."""

    def build(self, bus: dict[str, Options], stages: Sequence[Stage] = ALL) -> None:
        """Bring everything on the bus to Gold, or as far as the stages go."""
        settings = JobSettings(
            spark=SparkSettings(),
            lake=LakeSettings(root=self.root),
            publishing=settings_of(ServeSettings, bus).publishing,
            once=True,
        )
        Job(settings, stages, lambda _: None, threading.Event()).run_in(self.spark)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in Query(self.root, sql).lines("json")]

    def frame(self, table: str) -> polars.DataFrame:
        """Return a table as Polars reads it."""
        return polars.read_delta(f"{self.root}/{table.replace('.', '/')}")

    def check(self, published: Published, deliveries: int = 1) -> None:
        """Compare every layer with the response."""
        self.check_bronze(published, deliveries)
        self.check_silver(published.records)
        self.check_gold(published.records)

    def check_bronze(self, published: Published, deliveries: int = 1) -> None:
        decoded = Decoder().decode(self.frame("bronze.events")["envelope"].to_list())
        found = Counter(encode_lines(decoded).decode().splitlines())
        expected = Counter(published.lines)
        assert found == {line: deliveries * times for line, times in expected.items()}

    def check_silver(self, records: Sequence[dict[str, Any]]) -> None:
        for type_, table in SILVER.items():
            times = Counter(
                (record.get("symbol", ""), parse_us(record["localTimestamp"]))
                for record in records
                if record["type"] == type_
            )
            kept = self.frame(table).select("symbol", polars.col("local_ts").dt.epoch("us"))
            assert Counter(kept.rows()) == times, table
        trades = self.rows(f"select {', '.join(TRADE)} from silver.trades")
        assert Counter(map(str, trades)) == Counter(
            str({name: record[name] for name in TRADE})
            for record in records
            if record["type"] == "trade"
        )
        assert self.rows("select * from silver.quarantine") == []

    def check_gold(self, records: Sequence[dict[str, Any]]) -> None:
        bars = self.rows(
            "select symbol, strftime(open_ts, '%H:%M') as minute, open, high, low, close, "
            "round(volume, 6) as volume, trades from gold.bars where interval = '1m' order by all"
        )
        assert [tuple(bar.values()) for bar in bars] == bars_by_hand(records)


def bars_by_hand(records: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Compute one-minute bars from the response alone."""
    connection = duckdb.connect()
    connection.execute(
        "create table trades (symbol text, ts timestamp, n int, price double, amount double)"
    )
    connection.executemany(
        "insert into trades values (?, ?, ?, ?, ?)",
        [
            (trade["symbol"], trade["timestamp"][:-1], number, trade["price"], trade["amount"])
            for number, trade in enumerate(records)
            if trade["type"] == "trade"
        ],
    )
    return connection.execute(
        """
        select symbol, strftime(date_trunc('minute', ts), '%H:%M') as minute,
               arg_min(price, (ts, n)), max(price), min(price), arg_max(price, (ts, n)),
               round(sum(amount), 6), count(*)
        from trades group by all order by all
        """
    ).fetchall()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, str(tmp_path / "lake"))


@pytest.fixture
def lake_at_uri(spark: SparkSession, tmp_path: Path) -> Lake:
    """Give a lake as on a store of objects: nothing is taken to be a local file."""
    return Lake(spark, (tmp_path / "lake").as_uri())


@pytest.mark.parametrize("bus", BUSES)
def test_every_event_of_a_bus_is_in_bronze_once(bus: str, published: Published, lake: Lake) -> None:
    lake.build({bus: published.buses[bus]}, (Stage.INGEST,))
    lake.check_bronze(published)
    # Only Kinesis must be read to plan a batch; what was read is kept for the tasks.
    pages = list(Path(lake.root, "_checkpoints").glob("ingest-*/pages/*"))
    assert bool(pages) == (bus == "kinesis")


@pytest.mark.soak
@pytest.mark.parametrize("bus", BUSES)
def test_every_event_of_a_bus_reaches_gold_once(bus: str, published: Published, lake: Lake) -> None:
    lake.build({bus: published.buses[bus]})
    lake.check(published)


async def test_second_replay_adds_no_row_to_silver(
    published: Published, lake_at_uri: Lake, recordings: Path, tmp_path: Path
) -> None:
    lake, bus = lake_at_uri, {"files": published.buses["files"]}
    lake.build(bus)
    lake.check(published)
    assert await replay(bus, recordings, tmp_path / "spool") == published.lines
    lake.build(bus)
    lake.check(published, deliveries=2)
