"""The buses of the soak: the flags that publish to each of them, and how a consumer reads it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure.eventhub import EventData
from azure.eventhub.aio import EventHubConsumerClient

from tardis_machine.buses.files.log import read_blocks, segments
from tests.servers.kinesis import LOGIN
from tests.servers.readers import Received, kinesis_client

PARTITIONS = 4
PATIENCE_SECONDS = 60
"""How long a bus may give nothing before it counts as stuck."""


@dataclass(frozen=True)
class SoakBus:
    """One destination on one bus."""

    name: str
    flags: Sequence[str]
    read: Callable[[], Awaitable[list[Received]]]


def kafka_flags(address: str, topic: str) -> list[str]:
    return ["--kafka-brokers", address, "--kafka-topic", topic]


def redis_flags(address: str, stream: str) -> list[str]:
    return ["--redis-url", address, "--redis-stream", stream]


def nats_flags(address: str, subject: str) -> list[str]:
    return ["--nats-servers", address, "--nats-subject", subject]


def kinesis_flags(address: str, stream: str) -> list[str]:
    return [
        *("--kinesis-endpoint-url", address),
        *("--kinesis-stream", stream),
        *("--kinesis-region", LOGIN["region_name"]),
        *("--kinesis-access-key-id", LOGIN["aws_access_key_id"]),
        *("--kinesis-secret-access-key", LOGIN["aws_secret_access_key"]),
        # The local server has no limit per shard, and few shards.
        *("--kinesis-max-shard-rate", "0"),
    ]


def event_hubs_flags(address: str, hub: str) -> list[str]:
    return ["--event-hubs-connection-string", address, "--event-hubs-event-hub-name", hub]


def files_flags(folder: Path) -> list[str]:
    return ["--files-dir", str(folder)]


async def read_files(folder: Path) -> list[Received]:
    """Return every event of a stream of the files bus."""

    def read() -> list[Received]:
        return [
            Received(value=record.envelope, key=record.key, headers=record.headers)
            for segment in segments(folder)
            for block in read_blocks(segment.path)
            for record in block.records
        ]

    return await asyncio.to_thread(read)


async def create_kinesis_stream(address: str, name: str) -> str:
    """Create a stream, wait until it can be written to, and return its name."""
    async with kinesis_client(address) as client:
        await client.create_stream(StreamName=name, ShardCount=PARTITIONS)
        waiter = client.get_waiter("stream_exists")
        await waiter.wait(StreamName=name, WaiterConfig={"Delay": 0.02, "MaxAttempts": 500})
    return name


async def read_hub(address: str, hub: str, events: int) -> list[Received]:
    """Return so many events of a hub, however long it takes as long as some come."""
    received: list[Received] = []
    has_grown = asyncio.Event()

    async def keep(_: Any, batch: list[EventData]) -> None:
        received.extend(map(_from_hub, batch))
        has_grown.set()

    async with EventHubConsumerClient.from_connection_string(
        address, "$Default", eventhub_name=hub
    ) as client:
        receiving = asyncio.create_task(client.receive_batch(keep, starting_position="-1"))
        try:
            while len(received) < events:
                has_grown.clear()
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await has_grown.wait()
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
    return received


def _from_hub(event: EventData) -> Received:
    headers = {_text(name): _text(value) for name, value in (event.properties or {}).items()}
    return Received(
        value=b"".join(event.body), headers={**headers, "message_id": _text(event.message_id)}
    )


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
