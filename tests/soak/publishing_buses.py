"""The buses of the soak: the flags that publish to each of them, and how a consumer reads it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tardis_machine.sinks.log import read_blocks, segments
from tests.servers.kinesis import LOGIN
from tests.servers.readers import Received, kinesis_client

PARTITIONS = 4


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
