"""Read back all that a bus holds now, with the client library a consumer would use."""

import asyncio
import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import nats
import redis.asyncio
from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession, get_session
from azure.eventhub import EventData
from azure.eventhub.aio import EventHubConsumerClient
from confluent_kafka import Consumer, Message, TopicPartition
from nats.aio.msg import Msg

from tests.servers.kinesis import LOGIN as KINESIS_LOGIN

READ_SECONDS = 240


class ReadError(RuntimeError):
    """A bus did not give back what it said it holds."""


@dataclass(frozen=True, kw_only=True)
class Received:
    """One record as a consumer sees it; lists of them are in order per partition."""

    value: bytes
    key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    partition: str = ""


async def read_kafka(address: str, topic: str, **config: str) -> list[Received]:
    """Return every record of a topic, partition by partition."""
    return await asyncio.to_thread(_read_kafka, address, topic, config)


def _read_kafka(address: str, topic: str, config: dict[str, str]) -> list[Received]:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **config,
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, READ_SECONDS).topics[topic].partitions)
        found = (_read_kafka_partition(consumer, topic, number) for number in partitions)
        return [record for records in found for record in records]
    finally:
        consumer.close()


def _read_kafka_partition(consumer: Consumer, topic: str, number: int) -> list[Received]:
    start, end = consumer.get_watermark_offsets(TopicPartition(topic, number), READ_SECONDS)
    if start == end:
        return []
    consumer.assign([TopicPartition(topic, number, start)])
    records: list[Received] = []
    while True:
        message = consumer.poll(READ_SECONDS)
        if message is None:
            raise ReadError(f"{topic}/{number}: {len(records)} of {end - start} records, then none")
        # The end of a partition is an event of its own: control records leave holes before it.
        if message.error() is not None:
            if message.offset() >= end:
                return records
            raise ReadError(str(message.error()))
        records.append(_from_kafka(message))


def _from_kafka(message: Message) -> Received:
    key = message.key()
    headers = {name: (value or b"").decode() for name, value in message.headers() or []}
    return Received(
        value=message.value() or b"",
        key=None if key is None else key.decode(),
        headers=headers,
        partition=str(message.partition()),
    )


async def read_redis(address: str, stream: str, **options: Any) -> list[Received]:
    """Return every entry of a stream; fields other than `data` and `key` count as headers."""
    async with redis.asyncio.Redis.from_url(address, **options) as client:
        return _from_redis(await client.xrange(stream))


async def read_redis_cluster(address: str, stream: str, **options: Any) -> list[Received]:
    """Return every entry of a stream, whichever node holds it."""

    # The asyncio cluster client leaves connections of nodes it has dropped unclosed.
    def read() -> list[Received]:
        with redis.RedisCluster.from_url(address, **options) as client:
            return _from_redis(client.xrange(stream))

    return await asyncio.to_thread(read)


def _from_redis(entries: list[tuple[bytes, dict[bytes, bytes]]]) -> list[Received]:
    received = []
    for _, raw in entries:
        fields = {name.decode(): value for name, value in raw.items()}
        value, key = fields.pop("data", b""), fields.pop("key", None)
        headers = {name: text.decode() for name, text in fields.items()}
        text_key = None if key is None else key.decode()
        received.append(Received(value=value, key=text_key, headers=headers))
    return received


async def connect_nats(address: str, **options: Any) -> nats.NATS:
    """Connect once, quietly, without the client's own reconnects."""

    async def ignore(_: Exception) -> None:
        """Drop the copy; the caller gets the error as an exception."""

    client = nats.NATS()
    try:
        await client.connect(
            address.split(","),
            connect_timeout=60,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0.01,
            error_cb=ignore,
            **options,
        )
    except BaseException:
        # A refused login leaves the socket open.
        await client.close()
        raise
    return client


async def read_nats(address: str, stream: str, **options: Any) -> list[Received]:
    """Return every message of a stream; the subject counts as the key."""
    received: list[Received] = []
    has_grown = asyncio.Event()

    # Asked for one by one, messages take three times as long.
    async def keep(message: Msg) -> None:
        headers = dict(message.headers or {})
        received.append(Received(value=message.data, key=message.subject, headers=headers))
        has_grown.set()

    async with await connect_nats(address, **options) as client:
        context = client.jetstream()
        wanted = (await context.stream_info(stream)).state.messages
        await context.subscribe(
            ">",
            cb=keep,
            stream=stream,
            ordered_consumer=True,
            pending_msgs_limit=-1,
            pending_bytes_limit=-1,
        )
        while len(received) < wanted:
            has_grown.clear()
            async with asyncio.timeout(READ_SECONDS):
                await has_grown.wait()
    return received[:wanted]


@functools.cache
def _aws_session() -> AioSession:
    # Parsing the service model takes most of a second; a session keeps it.
    return get_session()


@asynccontextmanager
async def kinesis_client(address: str, **login: Any) -> AsyncIterator[Any]:
    """Give a Kinesis client that tries once."""
    config = AioConfig(retries={"total_max_attempts": 1, "mode": "standard"})
    async with _aws_session().create_client(
        "kinesis", endpoint_url=address, config=config, **(KINESIS_LOGIN | login)
    ) as client:
        yield client


async def read_kinesis(address: str, stream: str, **login: Any) -> list[Received]:
    """Return every record of a stream, shard by shard."""
    async with kinesis_client(address, **login) as client:
        shards = (await client.list_shards(StreamName=stream))["Shards"]
        found = [await _read_shard(client, stream, shard["ShardId"]) for shard in shards]
    return [record for records in found for record in records]


async def _read_shard(client: Any, stream: str, shard_id: str) -> list[Received]:
    answer = await client.get_shard_iterator(
        StreamName=stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )
    iterator, records = answer["ShardIterator"], []
    while iterator is not None:
        page = await client.get_records(ShardIterator=iterator)
        for record in page["Records"]:
            key = record["PartitionKey"]
            records.append(Received(value=record["Data"], key=key, partition=shard_id))
        is_end = not page["Records"] and page["MillisBehindLatest"] == 0
        iterator = None if is_end else page.get("NextShardIterator")
    return records


async def read_event_hub(address: str, hub: str) -> list[Received]:
    """Return every event of a hub, partition by partition."""
    async with _event_hub_client(address, hub) as client:
        ids = await client.get_partition_ids()
        places = await asyncio.gather(*map(client.get_partition_properties, ids))
    wanted = {
        place["id"]: place["last_enqueued_sequence_number"] - place["beginning_sequence_number"] + 1
        for place in places
        if not place["is_empty"]
    }
    found = await asyncio.gather(
        *(_read_partition(address, hub, number, count) for number, count in wanted.items())
    )
    return [record for records in found for record in records]


def _event_hub_client(address: str, hub: str) -> EventHubConsumerClient:
    return EventHubConsumerClient.from_connection_string(
        address, "$Default", eventhub_name=hub, retry_total=0
    )


async def _read_partition(address: str, hub: str, number: str, count: int) -> list[Received]:
    records: list[Received] = []
    is_complete = asyncio.Event()

    async def keep(_: Any, events: list[EventData]) -> None:
        records.extend(_from_event_hub(event, number) for event in events)
        if len(records) >= count:
            is_complete.set()

    async with _event_hub_client(address, hub) as client:
        receiving = asyncio.create_task(
            client.receive_batch(
                keep, partition_id=number, starting_position="-1", max_wait_time=1, prefetch=1000
            )
        )
        try:
            async with asyncio.timeout(READ_SECONDS):
                await is_complete.wait()
        finally:
            # Left alone it would sleep for its whole load-balancing interval before it ends.
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
    return records[:count]


def _from_event_hub(event: EventData, number: str) -> Received:
    headers = {_text(name): _text(value) for name, value in (event.properties or {}).items()}
    if event.message_id is not None:
        headers["message_id"] = _text(event.message_id)
    key = event.partition_key
    return Received(
        value=b"".join(event.body),
        key=None if key is None else _text(key),
        headers=headers,
        partition=number,
    )


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
