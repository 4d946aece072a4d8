"""One destination on every bus, for events that are published to all of them at once."""

from pathlib import Path
from typing import Any

from tests.servers.event_hubs import EventHubs
from tests.servers.kafka import Kafka
from tests.servers.kinesis import Kinesis
from tests.servers.nats import Nats
from tests.servers.readers import connect_nats, kinesis_client
from tests.servers.redis import Redis

Options = dict[str, Any]

BUSES = ["kafka", "redis", "nats", "kinesis", "event_hubs"]


class EveryBus:
    """The servers of a run."""

    def __init__(
        self, kafka: Kafka, redis: Redis, nats: Nats, kinesis: Kinesis, event_hubs: EventHubs
    ) -> None:
        self._kafka = kafka
        self._redis = redis
        self._nats = nats
        self._kinesis = kinesis
        self._event_hubs = event_hubs

    async def prepare(self, name: str, folder: Path) -> dict[str, Options]:
        """Make a destination on each; return the options of each bus, by its name."""
        async with await connect_nats(self._nats.address) as client:
            await client.jetstream().add_stream(name=name, subjects=[name])
        async with kinesis_client(self._kinesis.address) as client:
            await client.create_stream(StreamName=name, ShardCount=2)
            waiter = client.get_waiter("stream_exists")
            await waiter.wait(StreamName=name, WaiterConfig={"Delay": 0.02, "MaxAttempts": 500})
        return {
            "kafka": {
                "brokers": [self._kafka.address],
                "topic": self._kafka.create_topic(name),
            },
            "redis": {"url": self._redis.address, "stream": name},
            "nats": {"servers": [self._nats.address], "subject": name},
            "kinesis": {
                "stream": name,
                "endpoint_url": self._kinesis.address,
                "region": "us-east-1",
                "access_key_id": "test",
                "secret_access_key": "test",
            },
            "event_hubs": {
                "connection_string": self._event_hubs.address,
                "event_hub_name": self._event_hubs.create_hub(name),
            },
            "files": {"dir": folder / "bus"},
        }
