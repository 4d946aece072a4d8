"""Consumers that read a bus on and on, and go on where they were when it comes back."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import nats
import nats.errors
import redis.asyncio
from aiohttp import ClientError
from botocore.exceptions import BotoCoreError
from botocore.exceptions import ClientError as ServiceError
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from confluent_kafka import Consumer as KafkaClient
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from proton import Message
from redis.exceptions import RedisError

from tests.servers import amqp
from tests.servers.event_hubs_store import ENTRY
from tests.servers.readers import Received, connect_nats, kinesis_client
from tests.soak.publishing_buses import PARTITIONS

BATCH = 2000
WAIT_SECONDS = 0.05
PATIENCE_SECONDS = 5.0
"""How long a bus may take to answer before it counts as gone."""

GONE = (OSError, RedisError, nats.errors.Error, BotoCoreError, ServiceError, ClientError)
"""What clients raise while a bus is away."""


class Consumer(ABC):
    """Reads one destination from its start."""

    @abstractmethod
    async def read(self) -> list[Received]:
        """Return the next events, in order per key; none when there are none now."""

    async def close(self) -> None:  # noqa: B027 - not every one holds something
        """Let go of the bus."""


class KafkaConsumer(Consumer):
    """librdkafka reconnects by itself; without a group, no rebalance sends it back to the start."""

    def __init__(self, address: str, topic: str) -> None:
        self._client = KafkaClient(
            {
                "bootstrap.servers": address,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._client.assign(
            [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
        )

    async def read(self) -> list[Received]:
        messages = await asyncio.to_thread(self._client.consume, BATCH, WAIT_SECONDS)
        return [
            Received(
                value=message.value() or b"",
                headers={name: (text or b"").decode() for name, text in message.headers() or []},
            )
            for message in messages
            if message.error() is None
        ]

    async def close(self) -> None:
        await asyncio.to_thread(self._client.close)


class RedisConsumer(Consumer):
    """Removes what it has read, so that the server does not grow."""

    def __init__(self, address: str, stream: str) -> None:
        self._client = redis.asyncio.Redis.from_url(address, socket_timeout=PATIENCE_SECONDS)
        self._stream = stream
        self._after = "0"

    async def read(self) -> list[Received]:
        entries = await self._client.xrange(self._stream, f"({self._after}", count=BATCH)
        received = [
            Received(value=fields.pop(b"data"), headers=_texts(fields)) for _, fields in entries
        ]
        if entries:
            self._after = entries[-1][0].decode()
            # A failure is made good by the next one.
            with suppress(RedisError, OSError):
                await self._client.xtrim(self._stream, minid=self._after, approximate=False)
        return received

    async def close(self) -> None:
        await self._client.aclose()


def _texts(fields: dict[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in fields.items()}


class NatsConsumer(Consumer):
    """Connects anew when it must, and removes what it has read."""

    def __init__(self, address: str, stream: str) -> None:
        self._address = address
        self._stream = stream
        self._client: nats.NATS | None = None
        self._subscription: Any = None
        self._last = 0

    async def read(self) -> list[Received]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                messages = await self._fetch()
        except nats.errors.TimeoutError:
            return []
        except BaseException:
            await self.close()
            raise
        self._last = messages[-1].metadata.sequence.stream
        await self._remove()
        return [Received(value=each.data, headers=dict(each.headers or {})) for each in messages]

    async def _fetch(self) -> list[Msg]:
        if self._subscription is None:
            self._client = await connect_nats(self._address)
            config = ConsumerConfig(
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self._last + 1,
                ack_policy=AckPolicy.NONE,
            )
            self._subscription = await self._client.jetstream().pull_subscribe(
                ">", stream=self._stream, config=config
            )
        fetched: list[Msg] = await self._subscription.fetch(BATCH, timeout=PATIENCE_SECONDS / 2)
        return fetched

    async def _remove(self) -> None:
        assert self._client is not None
        # A failure is made good by the next one.
        with suppress(*GONE):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._client.jetstream().purge_stream(self._stream, seq=self._last + 1)

    async def close(self) -> None:
        client, self._client, self._subscription = self._client, None, None
        if client is not None:
            with suppress(*GONE):
                await client.close()


class KinesisConsumer(Consumer):
    """Reads one shard after another."""

    def __init__(self, address: str, stream: str) -> None:
        self._address = address
        self._stream = stream
        self._after: dict[str, str] = {}
        self._shards: list[str] = []
        self._stack = AsyncExitStack()
        self._client: Any = None

    async def read(self) -> list[Received]:
        if self._client is None:
            self._client = await self._stack.enter_async_context(kinesis_client(self._address))
        if not self._shards:
            shards = (await self._client.list_shards(StreamName=self._stream))["Shards"]
            self._shards = [shard["ShardId"] for shard in shards]
        # One at a time: an error must not take with it what another shard gave.
        for shard in self._shards:
            self._shards = [*self._shards[1:], shard]
            if received := await self._read_shard(shard):
                return received
        return []

    async def _read_shard(self, shard: str) -> list[Received]:
        place = {"ShardIteratorType": "TRIM_HORIZON"}
        if after := self._after.get(shard):
            place = {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": after,
            }
        answer = await self._client.get_shard_iterator(
            StreamName=self._stream, ShardId=shard, **place
        )
        page = await self._client.get_records(ShardIterator=answer["ShardIterator"], Limit=BATCH)
        if records := page["Records"]:
            self._after[shard] = records[-1]["SequenceNumber"]
        return [Received(value=record["Data"]) for record in records]

    async def close(self) -> None:
        await self._stack.aclose()


class EventHubsConsumer(Consumer):
    """Reads what the namespace keeps on disk, without the seconds that its client takes to start.

    The client itself reads in the tests of kills.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends: dict[Path, int] = {}

    async def read(self) -> list[Received]:
        return await asyncio.to_thread(lambda: list(self._read_all()))

    def _read_all(self) -> Iterator[Received]:
        for path in sorted(self._folder.glob("*.log")):
            with path.open("rb") as file:
                file.seek(self._ends.get(path, 0))
                data = file.read()
            position = 0
            while position + ENTRY.size <= len(data):
                size, _ = ENTRY.unpack_from(data, position)
                end = position + ENTRY.size + size
                if end > len(data):
                    break
                yield _from_event_hubs(data[position + ENTRY.size : end])
                position = end
            self._ends[path] = self._ends.get(path, 0) + position


def _from_event_hubs(encoded: bytes) -> Received:
    message = Message()
    message.decode(encoded)
    return Received(value=amqp.body(encoded), headers={"message_id": str(message.id)})
