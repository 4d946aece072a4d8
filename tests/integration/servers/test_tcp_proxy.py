"""The TCP fault proxy, before a real Redis and a real Kafka."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio
from confluent_kafka import Producer
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, TimeoutError

from tests.servers.kafka import Kafka
from tests.servers.readers import read_kafka
from tests.servers.redis import Redis
from tests.servers.tcp_proxy import Flow, MakeProxy, TcpProxy

pytestmark = pytest.mark.broker


@pytest.fixture
def proxy(redis_server: Redis, tcp_proxy: MakeProxy) -> TcpProxy:
    return tcp_proxy(redis_server.endpoint)


@pytest.fixture
async def client(redis_server: Redis, proxy: TcpProxy) -> AsyncIterator[redis.asyncio.Redis]:
    address = redis_server.address_at(proxy.endpoint)
    once = Retry(NoBackoff(), 0)
    async with redis.asyncio.Redis.from_url(address, socket_timeout=240, retry=once) as client:
        await client.ping()
        yield client


async def test_cut_connection_is_reset_and_the_next_one_works(
    proxy: TcpProxy, client: redis.asyncio.Redis
) -> None:
    waiting = asyncio.create_task(client.blpop(["never"], timeout=240))
    async with asyncio.timeout(240):
        while not any(c["cmd"] == "blpop" for c in await client.client_list()):
            continue
    proxy.cut()
    with pytest.raises(ConnectionError):
        await waiting
    assert await client.ping()


async def test_stopped_proxy_refuses_until_it_starts(
    proxy: TcpProxy, client: redis.asyncio.Redis
) -> None:
    proxy.stop()
    with pytest.raises(ConnectionError):
        await client.ping()
    proxy.start()
    assert await client.ping()


async def test_paused_flow_holds_the_reply_until_resumed(
    proxy: TcpProxy, client: redis.asyncio.Redis
) -> None:
    proxy.pause(Flow.REPLIES)
    answer = asyncio.create_task(client.incr("held"))
    done, _ = await asyncio.wait([answer], timeout=0.1)
    assert not done
    proxy.resume()
    assert await answer >= 1


async def test_swallowed_reply_leaves_the_work_done(
    redis_server: Redis, proxy: TcpProxy, client: redis.asyncio.Redis, redis_stream: str
) -> None:
    proxy.swallow(Flow.REPLIES)
    unanswered = asyncio.create_task(client.xadd(redis_stream, {"data": "x"}))
    async with asyncio.timeout(240):
        while not proxy.swallowed_bytes(Flow.REPLIES):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not unanswered.done()
    unanswered.cancel()
    await asyncio.wait([unanswered])
    proxy.heal()
    assert await client.xlen(redis_stream) == 1
    assert proxy.swallowed_bytes(Flow.REPLIES) > 0


async def test_forgotten_connection_leads_nowhere_and_a_new_one_does_not(
    redis_server: Redis, proxy: TcpProxy, client: redis.asyncio.Redis, redis_stream: str
) -> None:
    await client.ping()
    proxy.forget()
    with pytest.raises((asyncio.TimeoutError, TimeoutError)):
        async with asyncio.timeout(0.2):
            await client.xadd(redis_stream, {"data": "x"})
    async with redis.asyncio.from_url(redis_server.address_at(proxy.endpoint)) as other:
        assert await other.xlen(redis_stream) == 0


async def test_request_cut_in_the_middle_is_not_done(
    proxy: TcpProxy, client: redis.asyncio.Redis, redis_stream: str
) -> None:
    proxy.cut_after(1000, Flow.REQUESTS)
    with pytest.raises(ConnectionError):
        await client.xadd(redis_stream, {"data": "x" * 2000})
    proxy.heal()
    assert await client.xlen(redis_stream) == 0


async def test_delay_slows_every_answer(proxy: TcpProxy, client: redis.asyncio.Redis) -> None:
    proxy.delay(0.1, Flow.REPLIES)
    clock = asyncio.get_running_loop().time
    start = clock()
    await client.ping()
    assert clock() - start >= 0.1


async def test_kafka_client_stays_behind_the_proxy_it_came_by(
    kafka: Kafka, kafka_proxy: TcpProxy, kafka_topic: str
) -> None:
    producer = Producer({"bootstrap.servers": kafka_proxy.address, "log_level": 0})
    producer.produce(kafka_topic, "x" * 1000)
    assert producer.flush(30) == 0
    assert kafka_proxy.passed_bytes(Flow.REQUESTS) > 1000
    kafka_proxy.pause()
    producer.produce(kafka_topic, "held")
    assert producer.flush(0.3) == 1
    kafka_proxy.resume()
    assert producer.flush(30) == 0
    assert len(await read_kafka(kafka.address, kafka_topic)) == 2
