"""What a bus received is what the HTTP response of the same replay holds."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tardis_machine.app.machine import TardisMachine
from tardis_machine.bronze.decode import Decoder
from tardis_machine.buses.files.log import read_blocks, segments
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.sources.simulator import SimulatorSettings, simulate
from tests.servers.event_hubs import EventHubs
from tests.servers.kafka import Kafka
from tests.servers.kinesis import Kinesis
from tests.servers.nats import Nats
from tests.servers.plugin import KAFKA_HUBS
from tests.servers.ports import free_ports
from tests.servers.readers import (
    Received,
    read_event_hub,
    read_kafka,
    read_kinesis,
    read_nats,
    read_redis,
)
from tests.servers.redis import Redis
from tests.servers.tls import Certificates

pytestmark = pytest.mark.broker

Read = Callable[[], Awaitable[list[Received]]]
REQUEST = {
    "exchange": "bitmex",
    "from": "2024-03-01",
    "to": "2024-03-01T00:02",
    "dataTypes": [
        *("trade", "book_change", "derivative_ticker", "liquidation", "book_ticker"),
        *("quote_1s", "book_snapshot_3_0ms", "book_snapshot_2_grouped10_1s", "trade_bar_10s"),
    ],
    "withDisconnectMessages": True,
}


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes of BitMEX with a lost connection."""
    folder = tmp_path_factory.mktemp("recordings")
    simulate(
        SimulatorSettings(
            out=folder, minutes=2, seed=3, exchanges=("bitmex",), rate=10, with_gaps=True
        )
    )
    return folder


def series_of(line: str) -> tuple[str, ...]:
    """Return what orders events: nothing is promised between different keys."""
    record = json.loads(line)
    return record["exchange"], record.get("symbol", ""), record["type"], record.get("name", "")


def by_series(lines: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
    series: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for line in lines:
        series[series_of(line)].append(line)
    return series


class EqualityContract:
    """What every bus must hold; a subclass says how to publish to it and how to read it."""

    async def test_bus_holds_what_the_response_holds(
        self, bus: dict[str, Any], read: Read, recordings: Path, tmp_path: Path
    ) -> None:
        options = {"event_bus": {"spool_dir": tmp_path / "spool"}} | bus
        machine = TardisMachine(port=free_ports(), offline=True, cache_dir=recordings, **options)
        async with machine, aiohttp.ClientSession() as session:
            url = f"{machine.http_url}/replay-normalized"
            async with session.get(url, params={"options": json.dumps(REQUEST)}) as response:
                assert response.status == 200
                answered = (await response.text()).splitlines()
        received = [record.value for record in await read()]
        published = encode_lines(Decoder().decode(received)).decode().splitlines()
        assert {series_of(line)[2] for line in answered} >= {"trade", "book_change", "disconnect"}
        assert sorted(published) == sorted(answered)
        assert by_series(published) == by_series(answered)


class TestKafka(EqualityContract):
    @pytest.fixture
    def bus(self, kafka: Kafka, kafka_topic: str) -> dict[str, Any]:
        return {"kafka": {"brokers": [kafka.address], "topic": kafka_topic}}

    @pytest.fixture
    def read(self, kafka: Kafka, kafka_topic: str) -> Read:
        return lambda: read_kafka(kafka.address, kafka_topic)


class TestRedis(EqualityContract):
    @pytest.fixture
    def bus(self, redis_server: Redis, redis_stream: str) -> dict[str, Any]:
        return {"redis": {"url": redis_server.address, "stream": redis_stream}}

    @pytest.fixture
    def read(self, redis_server: Redis, redis_stream: str) -> Read:
        return lambda: read_redis(redis_server.address, redis_stream)


class TestNats(EqualityContract):
    @pytest.fixture
    def bus(self, nats_server: Nats, nats_stream: str) -> dict[str, Any]:
        return {"nats": {"servers": [nats_server.address], "subject": nats_stream}}

    @pytest.fixture
    def read(self, nats_server: Nats, nats_stream: str) -> Read:
        return lambda: read_nats(nats_server.address, nats_stream)


class TestKinesis(EqualityContract):
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

    @pytest.fixture
    def read(self, kinesis: Kinesis, kinesis_stream: str) -> Read:
        return lambda: read_kinesis(kinesis.address, kinesis_stream)


@pytest.mark.usefixtures("kafka_hubs_proxy")
class TestEventHubsByKafka(EqualityContract):
    @pytest.fixture
    def bus(self, kafka: Kafka, kafka_topic: str, certificates: Certificates) -> dict[str, Any]:
        return {
            "event_hubs": {
                "transport": "kafka",
                "connection_string": KAFKA_HUBS,
                "custom_endpoint": kafka.hubs_address,
                "ca": certificates.ca,
                "event_hub_name": kafka_topic,
            }
        }

    @pytest.fixture
    def read(self, kafka: Kafka, kafka_topic: str) -> Read:
        return lambda: read_kafka(kafka.address, kafka_topic)


@pytest.mark.usefixtures("unclosed_sockets_allowed")
class TestEventHubs(EqualityContract):
    @pytest.fixture
    def bus(self, event_hubs: EventHubs, event_hub: str) -> dict[str, Any]:
        return {
            "event_hubs": {"connection_string": event_hubs.address, "event_hub_name": event_hub}
        }

    @pytest.fixture
    def read(self, event_hubs: EventHubs, event_hub: str) -> Read:
        return lambda: read_event_hub(event_hubs.address, event_hub)


class TestFiles(EqualityContract):
    @pytest.fixture
    def bus(self, tmp_path: Path) -> dict[str, Any]:
        return {"files": {"dir": tmp_path / "bus"}}

    @pytest.fixture
    def read(self, tmp_path: Path) -> Read:
        async def read_files() -> list[Received]:
            return await asyncio.to_thread(self.read_folder, tmp_path / "bus" / "bronze")

        return read_files

    @staticmethod
    def read_folder(folder: Path) -> list[Received]:
        return [
            Received(value=record.envelope)
            for segment in segments(folder)
            for block in read_blocks(segment.path)
            for record in block.records
        ]
