"""From a live feed over every bus to Silver: what the feed delivered, each event once.

One live session, with a lost connection and an error, is published to all buses. Each test brings
its bus to a lake of its own. What follows Bronze depends on no bus, so one goes on to Silver in
every run, and each of them in the soak.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import polars
import pytest
from pyspark.sql import SparkSession

from tardis_machine.app.publishing.job import open_publishing
from tardis_machine.app.publishing.live import live_views
from tardis_machine.app.settings.commands import PublishSettings
from tardis_machine.app.settings.keywords import settings_of
from tardis_machine.bronze.decode import Decoder
from tardis_machine.lake.jobs import Stage
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.requests import StreamRequest
from tardis_machine.model.time import parse_us
from tardis_machine.sources.live.listeners import Failure
from tardis_machine.sources.live.settings import LiveSettings
from tests.integration.exchange.clients import Gateway, running
from tests.integration.recording.sessions import Listener, Session
from tests.lake.every_bus import BUSES, EveryBus, Options
from tests.lake.test_bus_to_gold import TRADE, Lake
from tests.servers.event_hubs import EventHubs
from tests.servers.exchanges import until
from tests.servers.kafka import Kafka
from tests.servers.kinesis import Kinesis
from tests.servers.nats import Nats
from tests.servers.plugin import unique_name
from tests.servers.redis import Redis

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SYMBOLS = ["btcusdt", "ethusdt"]
REQUEST = StreamRequest(
    exchange="binance-futures",
    symbols=SYMBOLS,
    data_types=["trade", "book_change", "quote_1s", "trade_bar_1s"],
)
TABLES = {
    "silver.trades": {"trade"},
    "silver.book_changes": {"book_change"},
    "silver.quotes": {"book_snapshot"},
    "silver.trade_bars": {"trade_bar"},
    "silver.control_events": {"disconnect", "error"},
}
RECORDS_BETWEEN = 200
IN_EVERY_RUN = "kafka"


class Feed(Listener):
    """Sees what the feed itself says, errors included."""

    def failed(self, failure: Failure) -> None:
        self.records.append(failure.record())


class Delivered(NamedTuple):
    """A live session: what the feed delivered, and where it was published."""

    records: list[dict[str, Any]]
    buses: dict[str, Options]


@pytest.fixture(scope="module")
def delivered(
    kafka_of_run: Kafka,
    redis_of_run: Redis,
    nats_of_run: Nats,
    kinesis_of_run: Kinesis,
    event_hubs_of_run: EventHubs,
    tmp_path_factory: pytest.TempPathFactory,
) -> Delivered:
    """Publish one live session to every bus."""
    name, folder = unique_name("live"), tmp_path_factory.mktemp("live")
    servers = EveryBus(kafka_of_run, redis_of_run, nats_of_run, kinesis_of_run, event_hubs_of_run)

    async def prepare_and_stream() -> Delivered:
        buses = await servers.prepare(name, folder)
        return Delivered(await stream(buses, folder / "spool"), buses)

    # A loop of its own, whichever one the tests have.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, prepare_and_stream()).result()


async def stream(buses: dict[str, Options], spool: Path) -> list[dict[str, Any]]:
    """Stream with publishing on and faults in between; return what the feed delivered."""
    settings = settings_of(PublishSettings, {"event_bus": {"spool_dir": spool}} | buses)
    async with (
        running("binance-futures", simulate={"rate": 100.0}) as gateway,
        open_publishing(settings) as (_, client),
    ):
        live = LiveSettings(exchange_gateway=f"http://{gateway.place}")
        async with live_views(live, None, None, client) as views:
            session = Session(views)
            feed = session.join(REQUEST, Feed(SYMBOLS))
            await fail(gateway, feed, "close")
            count = len(feed.records)
            await until(lambda: len(feed.records) > count + RECORDS_BETWEEN)
            # One who comes later begins with books that are published to nobody.
            assert session.join(REQUEST).records
            await fail(gateway, feed, "garbage")
    return [json.loads(line) for line in encode_lines(feed.records).splitlines()]


async def fail(gateway: Gateway, feed: Listener, kind: str) -> None:
    """Let the exchange fail after some records, and wait until the feed has noticed."""
    count, lost = len(feed.records), feed.disconnects
    await until(lambda: len(feed.records) > count + RECORDS_BETWEEN)
    async with gateway.http.post(f"http://{gateway.place}/faults", json={"kind": kind}) as response:
        assert response.status == 200
    await until(lambda: feed.disconnects > lost)


def times_of(records: Sequence[dict[str, Any]], types: Set[str]) -> Counter[tuple[str, int]]:
    """Return how often there is a record of these types, by symbol and local time."""
    return Counter(
        (record.get("symbol", ""), parse_us(record["localTimestamp"]))
        for record in records
        if record["type"] in types
    )


def trades_of(records: Sequence[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple(record[name] for name in TRADE) for record in records if record["type"] == "trade"
    )


@pytest.mark.parametrize("bus", BUSES)
def test_bronze_holds_what_the_feed_delivered(
    bus: str, delivered: Delivered, spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))
    lake.build({bus: delivered.buses[bus]}, (Stage.INGEST,))
    assert {"trade", "error", "disconnect"} <= {record["type"] for record in delivered.records}
    decoded = Decoder().decode(lake.frame("bronze.events")["envelope"].to_list())
    found = [json.loads(line) for line in encode_lines(decoded).splitlines()]
    for types in TABLES.values():
        assert times_of(found, types) == times_of(delivered.records, types), types
    assert trades_of(found) == trades_of(delivered.records)


@pytest.mark.parametrize(
    "bus",
    [bus if bus == IN_EVERY_RUN else pytest.param(bus, marks=pytest.mark.soak) for bus in BUSES],
)
def test_silver_holds_what_the_feed_delivered(
    bus: str, delivered: Delivered, spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))
    lake.build({bus: delivered.buses[bus]}, (Stage.INGEST, Stage.REFINE))
    assert {"trade", "error", "disconnect"} <= {record["type"] for record in delivered.records}
    for table, types in TABLES.items():
        kept = lake.frame(table).select("symbol", polars.col("local_ts").dt.epoch("us"))
        assert Counter(kept.rows()) == times_of(delivered.records, types), table
    trades = lake.frame("silver.trades")
    assert Counter(trades.select(TRADE).rows()) == trades_of(delivered.records)
    assert set(trades["origin"]) == {"realtime"}
