"""From a replay over every bus to Gold: each event once, equal to the HTTP response."""

import json
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp
import duckdb
import pytest
from pyspark.sql import SparkSession

from tardis_machine.app.keywords import settings_of
from tardis_machine.app.machine import TardisMachine
from tardis_machine.app.settings import ServeSettings
from tardis_machine.lake.jobs import ALL, Job, JobSettings
from tardis_machine.lake.query import Query
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.sources.simulator import SimulatorSettings, simulate
from tests.compat.conftest import free_port
from tests.servers.event_hubs import EventHubs
from tests.servers.kafka import Kafka
from tests.servers.kinesis import Kinesis
from tests.servers.nats import Nats
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


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes of BitMEX with a lost connection."""
    folder = tmp_path_factory.mktemp("recordings")
    simulate(
        SimulatorSettings(
            out=folder, minutes=2, seed=5, exchanges=("bitmex",), rate=10, with_gaps=True
        )
    )
    return folder


async def publish(bus: dict[str, Any], recordings: Path, spool: Path) -> list[dict[str, Any]]:
    """Replay over HTTP with publishing on; return the records of the response."""
    options = {"event_bus": {"spool_dir": spool}} | bus
    machine = TardisMachine(port=free_port(), offline=True, cache_dir=recordings, **options)
    async with machine, aiohttp.ClientSession() as session:
        url = f"{machine.http_url}/replay-normalized"
        async with session.get(url, params={"options": json.dumps(REQUEST)}) as response:
            return [json.loads(line) for line in (await response.text()).splitlines()]


def build(spark: SparkSession, bus: dict[str, Any], root: Path) -> None:
    """Bring everything on the bus to Gold."""
    publishing = settings_of(ServeSettings, bus).publishing
    settings = JobSettings(
        spark=SparkSettings(),
        lake=LakeSettings(root=str(root)),
        publishing=publishing,
        once=True,
    )
    Job(settings, ALL, lambda _: None, threading.Event()).run_in(spark)


def rows(root: Path, sql: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Query(str(root), sql).lines("json")]


def bars_by_hand(trades: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Compute one-minute bars from the response alone."""
    connection = duckdb.connect()
    connection.execute(
        "create table trades (symbol text, ts timestamp, n int, price double, amount double)"
    )
    connection.executemany(
        "insert into trades values (?, ?, ?, ?, ?)",
        [
            (trade["symbol"], trade["timestamp"][:-1], number, trade["price"], trade["amount"])
            for number, trade in enumerate(trades)
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


class PathContract:
    """What holds for every bus; a subclass says how to publish to it."""

    async def test_every_event_reaches_the_tables_once(
        self, bus: dict[str, Any], spark: SparkSession, recordings: Path, tmp_path: Path
    ) -> None:
        root = tmp_path / "lake"
        answered = await publish(bus, recordings, tmp_path / "spool")
        build(spark, bus, root)
        self.check_tables(answered, root)

    def check_tables(self, answered: list[dict[str, Any]], root: Path) -> None:
        counts = Counter(record["type"] for record in answered)
        for type_, table in SILVER.items():
            (found,) = rows(root, f"select count(*) as n from {table}")
            assert found["n"] == counts[type_], table
        trades = [record for record in answered if record["type"] == "trade"]
        kept = rows(root, "select symbol, id, price, amount, side from silver.trades")
        assert Counter(map(str, kept)) == Counter(
            str({name: trade[name] for name in ("symbol", "id", "price", "amount", "side")})
            for trade in trades
        )
        bars = Query(
            str(root),
            "select symbol, strftime(open_ts, '%H:%M') as minute, open, high, low, close, "
            "round(volume, 6) as volume, trades from gold.bars "
            "where interval = '1m' order by all",
        )
        assert [tuple(json.loads(line).values()) for line in bars.lines("json")] == bars_by_hand(
            trades
        )


class TestKafka(PathContract):
    @pytest.fixture
    def bus(self, kafka: Kafka, kafka_topic: str) -> dict[str, Any]:
        return {"kafka": {"brokers": [kafka.address], "topic": kafka_topic}}


class TestRedis(PathContract):
    @pytest.fixture
    def bus(self, redis_server: Redis, redis_stream: str) -> dict[str, Any]:
        return {"redis": {"url": redis_server.address, "stream": redis_stream}}


class TestNats(PathContract):
    @pytest.fixture
    def bus(self, nats_server: Nats, nats_stream: str) -> dict[str, Any]:
        return {"nats": {"servers": [nats_server.address], "subject": nats_stream}}


class TestKinesis(PathContract):
    @pytest.fixture
    def bus(self, kinesis: Kinesis, kinesis_stream: str) -> dict[str, Any]:
        return {
            "kinesis": {
                "stream": kinesis_stream,
                "endpoint_url": kinesis.address,
                "region": "us-east-1",
                "access_key_id": "test",
                "secret_access_key": "test",
            }
        }


@pytest.mark.usefixtures("unclosed_sockets_allowed")
class TestEventHubs(PathContract):
    @pytest.fixture
    def bus(self, event_hubs: EventHubs, event_hub: str) -> dict[str, Any]:
        return {
            "event_hubs": {"connection_string": event_hubs.address, "event_hub_name": event_hub}
        }


class TestFiles(PathContract):
    @pytest.fixture
    def bus(self, tmp_path: Path) -> dict[str, Any]:
        return {"files": {"dir": tmp_path / "bus"}}

    async def test_second_replay_adds_no_row(
        self, bus: dict[str, Any], spark: SparkSession, recordings: Path, tmp_path: Path
    ) -> None:
        root = tmp_path / "lake"
        answered = await publish(bus, recordings, tmp_path / "spool")
        build(spark, bus, root)
        await publish(bus, recordings, tmp_path / "spool")
        build(spark, bus, root)
        self.check_tables(answered, root)
        (bronze,) = rows(root, "select count(*) as n from bronze.events")
        assert bronze["n"] == 2 * len(answered)
