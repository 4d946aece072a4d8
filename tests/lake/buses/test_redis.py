"""The reader of Redis Streams, held to the contract of all readers, and what only Redis has."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.redis.reader import RedisBus
from tardis_machine.lake.buses.source import StreamReader, stream_bus
from tardis_machine.lake.errors import BusError, DataLossError
from tardis_machine.model.settings import Secret
from tests.contract.bus_readers import (
    POLICY,
    BusReaderContract,
    Lake,
    MicroBatches,
    ReadableBus,
    all_envelopes,
    as_logged,
    envelopes_by_lane,
    is_in_order,
    numbered,
    rows_of,
)
from tests.servers.plugin import unique_name
from tests.servers.redis import Redis, RedisCluster
from tests.servers.tls import Certificates

pytestmark = pytest.mark.broker

PASSWORD = "redis-hush-hush"


class RedisUnderTest:
    """A stream of the run's server."""

    has_nulls = True
    is_anew_after_trim = False
    keeps_planned = False
    has_times = True
    has_server = True

    def __init__(self, server: Redis, stream: str) -> None:
        self.server = server
        self.stream = stream
        self.settings = RedisSettings(url=Secret(server.address), stream=stream)
        self.bus = RedisBus(self.settings)
        self.secrets = [server.password] if server.password else []

    def write(self, envelopes: Sequence[bytes | None]) -> None:
        with self.server.client() as client:
            pipeline = client.pipeline(transaction=False)
            for envelope in envelopes:
                fields = {"note": "x"} if envelope is None else {"data": envelope, "note": "x"}
                pipeline.xadd(self.stream, fields)
            pipeline.execute()

    def trim(self, keep: int = 0) -> None:
        with self.server.client() as client:
            client.xtrim(self.stream, maxlen=keep, approximate=False)

    def take_down(self) -> None:
        self.server.kill()

    def bring_back(self) -> None:
        self.server.start()


@pytest.fixture(scope="module")
def secret_redis() -> Iterator[Redis]:
    with Redis(password=PASSWORD) as server:
        yield server


@pytest.fixture
def readable(secret_redis: Redis) -> ReadableBus:
    secret_redis.heal()
    return RedisUnderTest(secret_redis, unique_name("stream"))


@pytest.fixture
def redis_bus(redis_server: Redis, redis_stream: str) -> RedisUnderTest:
    return RedisUnderTest(redis_server, redis_stream)


class TestRedis(BusReaderContract):
    pass


def planned(reader: StreamReader) -> tuple[dict[str, object], dict[str, object]]:
    start = reader.initialOffset()
    return start, as_logged(reader.latestOffset(start, reader.getDefaultReadLimit()))


def test_batch_that_was_written_but_not_committed_is_not_written_again(
    redis_bus: RedisUnderTest, spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path)
    redis_bus.write(numbered(10))
    lake.fill(stream_bus(spark, redis_bus.bus, POLICY))
    lake.forget_last_batch(with_files=False)
    redis_bus.write(numbered(10, first=10))
    lake.fill(stream_bus(spark, redis_bus.bus, POLICY))
    assert all_envelopes(lake.rows()) == Counter(numbered(20))


def test_large_range_is_cut_into_tasks_that_hold_all(redis_bus: RedisUnderTest) -> None:
    for first in range(0, 12_000, 2000):
        redis_bus.write(numbered(2000, first))
    reader = StreamReader(redis_bus.bus, ReadPolicy(rows_per_task=2000))
    start, end = planned(reader)
    partitions = reader.partitions(start, end)
    rows = rows_of(reader, partitions)
    reader.stop()
    assert len(partitions) > 1
    (lane,) = envelopes_by_lane(rows).values()
    assert lane == numbered(12_000)


def test_part_of_a_range_that_was_trimmed_before_it_is_read_is_noticed(
    redis_bus: RedisUnderTest,
) -> None:
    for first in range(0, 12_000, 2000):
        redis_bus.write(numbered(2000, first))
    reader = StreamReader(redis_bus.bus, ReadPolicy(rows_per_task=2000))
    start, end = planned(reader)
    partitions = reader.partitions(start, end)
    reader.stop()
    redis_bus.trim(keep=500)
    for partition in partitions:
        with pytest.raises(DataLossError):
            rows_of(reader, [partition])


def test_parts_that_were_read_before_trimming_are_no_loss(redis_bus: RedisUnderTest) -> None:
    for first in range(0, 12_000, 2000):
        redis_bus.write(numbered(2000, first))
    reader = StreamReader(redis_bus.bus, ReadPolicy(rows_per_task=2000))
    start, end = planned(reader)
    first_part, *parts = reader.partitions(start, end)
    rows = rows_of(reader, [first_part])
    redis_bus.trim(keep=12_000 - len(rows) + 1)
    rows += rows_of(reader, parts)
    reader.stop()
    assert all_envelopes(rows) == Counter(numbered(12_000))


def test_stream_that_was_made_anew_is_noticed(redis_bus: RedisUnderTest) -> None:
    redis_bus.write(numbered(20))
    before = MicroBatches(redis_bus.bus, POLICY)
    before.run()
    with redis_bus.server.client() as client:
        client.delete(redis_bus.stream)
    redis_bus.write(numbered(30, first=20))
    with pytest.raises(DataLossError, match="recreated"):
        MicroBatches(redis_bus.bus, POLICY, before.offset).run()
    after = MicroBatches(redis_bus.bus, ReadPolicy(fails_on_loss=False), before.offset).run()
    assert all_envelopes(after) == Counter(numbered(30, first=20))


def test_unread_entry_that_was_deleted_is_noticed(redis_bus: RedisUnderTest) -> None:
    redis_bus.write(numbered(10))
    before = MicroBatches(redis_bus.bus, POLICY)
    before.run()
    redis_bus.write(numbered(10, first=10))
    with redis_bus.server.client() as client:
        client.xdel(redis_bus.stream, client.xrange(redis_bus.stream)[15][0])
    with pytest.raises(DataLossError):
        MicroBatches(redis_bus.bus, POLICY, before.offset).run()


def test_entry_deleted_before_the_first_run_is_nobodys_loss(redis_bus: RedisUnderTest) -> None:
    redis_bus.write(numbered(10))
    with redis_bus.server.client() as client:
        client.xdel(redis_bus.stream, client.xrange(redis_bus.stream)[5][0])
    rows = MicroBatches(redis_bus.bus, ReadPolicy(max_rows=2)).run()
    assert len(rows) == 9


def test_streams_of_a_template_are_found(redis_server: Redis) -> None:
    prefix = unique_name("lake")
    settings = RedisSettings(
        url=Secret(redis_server.address), key_template=f"{prefix}:{{{{symbol}}}}"
    )
    buses = [RedisUnderTest(redis_server, f"{prefix}:{symbol}") for symbol in ("A", "B", "[C]*")]
    for number, bus in enumerate(buses):
        bus.write(numbered(10, first=10 * number))
    RedisUnderTest(redis_server, f"other-{prefix}:A").write(numbered(5, first=1000))
    rows = MicroBatches(RedisBus(settings), POLICY).run()
    assert {row["stream"] for row in rows} == {bus.stream for bus in buses}
    assert all_envelopes(rows) == Counter(numbered(30))


def test_stream_that_appears_later_is_read_from_its_start(redis_server: Redis) -> None:
    names = [unique_name("stream") for _ in range(2)]
    settings = RedisSettings(
        url=Secret(redis_server.address), stream=names[0], stream_routing={"trade": names[1]}
    )
    first, second = (RedisUnderTest(redis_server, name) for name in names)
    first.write(numbered(10))
    before = MicroBatches(RedisBus(settings), POLICY)
    assert len(before.run()) == 10
    second.write(numbered(10, first=10))
    after = MicroBatches(RedisBus(settings), POLICY, before.offset).run()
    assert all_envelopes(after) == Counter(numbered(10, first=10))


def test_cluster_is_read_whichever_node_holds_a_stream(redis_cluster: RedisCluster) -> None:
    prefix = unique_name("lake")
    settings = RedisSettings(
        url=Secret(redis_cluster.address), key_template=f"{prefix}:{{{{symbol}}}}"
    )
    with redis_cluster.nodes[0].client() as client:
        slots = {
            f"{prefix}:{number}": client.execute_command("CLUSTER KEYSLOT", f"{prefix}:{number}")
            for number in range(12)
        }
    for number, (stream, slot) in enumerate(slots.items()):
        node = redis_cluster.nodes[min(slot // (16_384 // 3), 2)]
        RedisUnderTest(node, stream).write(numbered(5, first=5 * number))
    rows = MicroBatches(RedisBus(settings), ReadPolicy(max_rows=20, retry_seconds=30)).run()
    assert all_envelopes(rows) == Counter(numbered(60))
    for lane in envelopes_by_lane(rows).values():
        assert is_in_order(lane, numbered(60))


def test_encrypted_server_is_read_and_a_strange_one_is_not(certificates: Certificates) -> None:
    with Redis(certificates=certificates, password=PASSWORD) as server:
        bus = RedisUnderTest(server, "bronze")
        bus.write(numbered(10))
        trusted = RedisSettings(url=Secret(server.address), stream="bronze", tls_ca=certificates.ca)
        assert len(MicroBatches(RedisBus(trusted), POLICY).run()) == 10
        with pytest.raises(BusError):
            MicroBatches(bus.bus, ReadPolicy(retry_seconds=0.1)).run()


def test_wrong_password_is_refused_at_once_and_not_shown(secret_redis: Redis) -> None:
    url = Secret(secret_redis.address_as("default", "wrong-password"))
    bus = RedisBus(RedisSettings(url=url, stream="bronze"))
    with pytest.raises(BusError, match="rejected") as caught:
        MicroBatches(bus, POLICY).run()
    assert "wrong-password" not in str(caught.value)


def test_key_that_is_no_stream_is_refused(redis_bus: RedisUnderTest) -> None:
    with redis_bus.server.client() as client:
        client.set(redis_bus.stream, "text")
    with pytest.raises(BusError, match="WRONGTYPE"):
        MicroBatches(redis_bus.bus, POLICY).run()


def test_ids_that_are_no_times_are_kept(redis_bus: RedisUnderTest) -> None:
    with redis_bus.server.client() as client:
        client.xadd(redis_bus.stream, {"data": b"one"}, id="5-1")
        client.xadd(redis_bus.stream, {"data": b"two"}, id="18446744073709551615-7")
    rows = MicroBatches(redis_bus.bus, POLICY).run()
    assert [row["position"] for row in rows] == ["5-1", "18446744073709551615-7"]
    assert rows[1]["bus_ts"] is None
