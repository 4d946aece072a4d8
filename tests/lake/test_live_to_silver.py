"""From a live feed over every bus to Silver: what the feed delivered, each event once.

One live session, with a lost connection and an error, is published to all buses. Each test brings
its bus to a lake of its own.
"""

import asyncio
import json
from collections import Counter
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
from tardis_machine.lake.jobs import Stage
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.requests import StreamRequest
from tardis_machine.model.time import parse_us
from tardis_machine.sources.live.listeners import Failure
from tardis_machine.sources.live.settings import LiveSettings
from tests.integration.exchange.clients import Gateway, running
from tests.integration.recording.sessions import Listener, Session
from tests.lake.every_bus import BUSES, EveryBus, Options
from tests.lake.test_bus_to_gold import Lake
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


@pytest.mark.parametrize("bus", BUSES)
def test_silver_holds_what_the_feed_delivered(
    bus: str, delivered: Delivered, spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))
    lake.build({bus: delivered.buses[bus]}, (Stage.INGEST, Stage.REFINE))
    assert {"trade", "error", "disconnect"} <= {record["type"] for record in delivered.records}
    for table, types in TABLES.items():
        expected = Counter(
            (record.get("symbol", ""), parse_us(record["localTimestamp"]))
            for record in delivered.records
            if record["type"] in types
        )
        kept = lake.frame(table).select("symbol", polars.col("local_ts").dt.epoch("us"))
        assert Counter(kept.rows()) == expected, table
    trades = lake.frame("silver.trades").select("symbol", "id", "price", "amount", "side", "origin")
    assert Counter(trades.rows()) == Counter(
        (*(record[name] for name in ("symbol", "id", "price", "amount", "side")), "realtime")
        for record in delivered.records
        if record["type"] == "trade"
    )
