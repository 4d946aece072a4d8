"""The Redis servers of the tests, seen by redis-py."""

import asyncio

import pytest
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ClusterDownError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
)
from redis.retry import Retry

from tests.servers.readers import read_redis, read_redis_cluster
from tests.servers.redis import Redis, RedisCluster
from tests.servers.tls import Certificates

pytestmark = pytest.mark.broker


async def add(address: str, stream: str, *values: str, **options: object) -> None:
    async with redis.asyncio.Redis.from_url(address, **options) as client:
        for value in values:
            await client.xadd(stream, {"data": value, "key": "k", "payloadCase": "trade"})


async def test_added_entries_are_read_back_in_order(redis_server: Redis, redis_stream: str) -> None:
    values = [str(n) for n in range(100)]
    await add(redis_server.address, redis_stream, *values)
    records = await read_redis(redis_server.address, redis_stream)
    assert [record.value.decode() for record in records] == values
    assert records[0].key == "k"
    assert records[0].headers == {"payloadCase": "trade"}


async def test_killed_server_comes_back_with_its_entries(
    redis_server: Redis, redis_stream: str
) -> None:
    await add(redis_server.address, redis_stream, "before")
    redis_server.kill()
    with pytest.raises(ConnectionError):
        await add(redis_server.address, redis_stream, "meanwhile")
    redis_server.start()
    await add(redis_server.address, redis_stream, "after")
    records = await read_redis(redis_server.address, redis_stream)
    assert [record.value for record in records] == [b"before", b"after"]


async def test_paused_server_answers_after_it_is_resumed(
    redis_server: Redis, redis_stream: str
) -> None:
    redis_server.pause()
    late = asyncio.create_task(add(redis_server.address, redis_stream, "late", socket_timeout=240))
    done, _ = await asyncio.wait([late], timeout=0.1)
    assert not done
    redis_server.resume()
    await late
    assert len(await read_redis(redis_server.address, redis_stream)) == 1


async def test_stopped_server_is_healed(redis_server: Redis, redis_stream: str) -> None:
    await add(redis_server.address, redis_stream, "kept")
    redis_server.stop()
    assert not redis_server.is_running
    redis_server.heal()
    assert len(await read_redis(redis_server.address, redis_stream)) == 1


async def test_acl_user_without_xadd_is_refused() -> None:
    with Redis(password="main-secret", acl={"reader": ">reader-secret ~* +@read"}) as server:
        await add(server.address, "s", "in")
        with pytest.raises(NoPermissionError):
            await add(server.address_as("reader", "reader-secret"), "s", "out")
        with pytest.raises(AuthenticationError):
            await add(server.address_as("default", "wrong"), "s", "out")
        assert len(await read_redis(server.address, "s")) == 1


async def test_tls_server_takes_clients_that_trust_our_authority(
    certificates: Certificates,
) -> None:
    with Redis(certificates=certificates) as server:
        await add(server.address, "s", "sealed", ssl_ca_certs=str(certificates.ca))
        with pytest.raises(ConnectionError):
            await add(server.address, "s", "unknown authority")
        records = await read_redis(server.address, "s", ssl_ca_certs=str(certificates.ca))
        assert [record.value for record in records] == [b"sealed"]


async def test_full_memory_refuses_entries() -> None:
    with Redis(max_memory_bytes=3_000_000) as server:
        with pytest.raises(OutOfMemoryError):
            await add(server.address, "s", *["x" * 100_000] * 40)
        assert 0 < len(await read_redis(server.address, "s")) < 40


async def test_dead_cluster_node_fails_its_own_slots_only(redis_cluster: RedisCluster) -> None:
    address = redis_cluster.address
    streams = [f"stream-{n}" for n in range(30)]
    with redis.RedisCluster.from_url(address) as client:
        owners = {stream: client.get_node_from_key(stream).port for stream in streams}
        for stream in streams:
            client.xadd(stream, {"data": "before"})
    assert set(owners.values()) == {node.port for node in redis_cluster.nodes}
    victim = redis_cluster.nodes[2]
    victim.kill()
    alive = next(stream for stream in streams if owners[stream] != victim.port)
    dead = next(stream for stream in streams if owners[stream] == victim.port)
    assert len(await read_redis_cluster(address, alive)) == 1
    with pytest.raises((ConnectionError, ClusterDownError)):
        await read_redis_cluster(address, dead, retry=Retry(NoBackoff(), 0))
    redis_cluster.heal()
    assert len(await read_redis_cluster(address, dead)) == 1
