"""The reader of Kinesis, held to the contract of all readers, and what only Kinesis has."""

import asyncio
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tardis_machine.buses.kinesis.aggregation import aggregate
from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.kinesis.planner import DAY_MS
from tardis_machine.lake.buses.kinesis.reader import KinesisBus
from tardis_machine.lake.buses.kinesis.records import events_of
from tardis_machine.lake.buses.positions import STREAMS
from tardis_machine.lake.buses.source import StreamReader
from tardis_machine.lake.errors import BusError, DataLossError
from tardis_machine.model.settings import Secret
from tests.contract.bus_readers import (
    POLICY,
    BusReaderContract,
    MicroBatches,
    ReadableBus,
    all_envelopes,
    envelopes_by_lane,
    is_in_order,
    numbered,
    rows_of,
)
from tests.servers.kinesis import REGION, Kinesis
from tests.servers.kinesis_faults import FailCall
from tests.servers.plugin import unique_name
from tests.servers.readers import kinesis_client

pytestmark = pytest.mark.broker

SECRET = "kinesis-hush-hush"
SHARDS = 2
HALF = 1 << 127
CALL_RECORDS = 200


class KinesisUnderTest:
    """A stream of two shards."""

    has_nulls = False
    is_anew_after_trim = True
    keeps_planned = True
    has_times = True
    has_server = True

    def __init__(self, server: Kinesis, spool: Path) -> None:
        self.server = server
        self.stream = unique_name("stream")
        self.settings = KinesisSettings(
            stream=self.stream,
            region=REGION,
            access_key_id="AKIDTEST",
            secret_access_key=Secret(SECRET),
            endpoint_url=server.address,
        )
        self.spool = spool
        self.bus = KinesisBus(self.settings, str(spool))
        self.secrets = [SECRET]
        self.create()

    def do(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            async with kinesis_client(self.server.address) as client:
                return await work(client)

        return asyncio.run(run())

    async def _wait(self, client: Any, state: str) -> None:
        waiter = client.get_waiter(state)
        config = {"Delay": 0.02, "MaxAttempts": 500}
        await waiter.wait(StreamName=self.stream, WaiterConfig=config)

    def create(self) -> None:
        async def work(client: Any) -> None:
            await client.create_stream(StreamName=self.stream, ShardCount=SHARDS)
            await self._wait(client, "stream_exists")

        self.do(work)

    def write(self, envelopes: Sequence[bytes | None]) -> None:
        records = [
            {
                "Data": envelope or b"",
                "PartitionKey": "x",
                "ExplicitHashKey": str(number % SHARDS * HALF),
            }
            for number, envelope in enumerate(envelopes)
        ]

        async def work(client: Any) -> None:
            for start in range(0, len(records), CALL_RECORDS):
                part = records[start : start + CALL_RECORDS]
                await client.put_records(StreamName=self.stream, Records=part)

        self.do(work)

    def trim(self) -> None:
        async def work(client: Any) -> None:
            await client.delete_stream(StreamName=self.stream)
            await self._wait(client, "stream_not_exists")

        self.do(work)
        # Sequence numbers name the second in which their shard was made; those of the old stream
        # would be good for a new one of the same second.
        time.sleep(1 - time.time() % 1)
        self.create()

    def split(self) -> None:
        """Replace the first shard by two."""

        async def work(client: Any) -> None:
            await client.split_shard(
                StreamName=self.stream,
                ShardToSplit="shardId-000000000000",
                NewStartingHashKey=str(HALF // 2),
            )
            await self._wait(client, "stream_exists")

        self.do(work)

    def merge(self) -> None:
        """Replace the two shards of the split by one."""

        async def work(client: Any) -> None:
            await client.merge_shards(
                StreamName=self.stream,
                ShardToMerge="shardId-000000000002",
                AdjacentShardToMerge="shardId-000000000003",
            )
            await self._wait(client, "stream_exists")

        self.do(work)

    def take_down(self) -> None:
        self.server.kill()

    def bring_back(self) -> None:
        self.server.start()


@pytest.fixture
def readable(kinesis: Kinesis, tmp_path: Path) -> ReadableBus:
    return KinesisUnderTest(kinesis, tmp_path / "spool")


class TestKinesis(BusReaderContract):
    pass


def test_spool_holds_no_more_than_one_batch(readable: KinesisUnderTest) -> None:
    readable.write(numbered(60))
    assert len(MicroBatches(readable.bus, ReadPolicy(max_rows=20)).run()) == 60
    assert len(list(readable.spool.iterdir())) <= SHARDS


def test_planned_range_goes_with_the_stream_when_there_is_no_spool(
    readable: KinesisUnderTest,
) -> None:
    readable.write(numbered(20))
    reader = StreamReader(KinesisBus(readable.settings), POLICY)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    partitions = reader.partitions(start, end)
    reader.stop()
    readable.trim()
    with pytest.raises(DataLossError):
        rows_of(reader, partitions)


def test_position_in_another_stream_of_the_name_is_noticed(readable: KinesisUnderTest) -> None:
    readable.write(numbered(20))
    before = MicroBatches(readable.bus, POLICY)
    before.run()
    assert before.offset is not None
    (arn_and_time,) = before.offset[STREAMS].values()
    assert readable.stream in arn_and_time
    foreign = before.offset | {STREAMS: {readable.stream: "another account"}}
    with pytest.raises(DataLossError, match="recreated"):
        MicroBatches(readable.bus, POLICY, foreign).run()
    after = MicroBatches(readable.bus, ReadPolicy(fails_on_loss=False), foreign).run()
    assert all_envelopes(after) == Counter(numbered(20))


def test_range_is_the_same_from_the_spool_and_from_the_service(readable: KinesisUnderTest) -> None:
    readable.write(numbered(50))
    reader = StreamReader(readable.bus, POLICY)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    partitions = reader.partitions(start, end)
    reader.stop()
    assert len(list(readable.spool.iterdir())) == SHARDS
    without = StreamReader(KinesisBus(readable.settings), POLICY)
    assert rows_of(reader, partitions) == rows_of(without, partitions)


def test_resharded_stream_is_read_parents_first(readable: KinesisUnderTest) -> None:
    readable.write(numbered(40))
    before = MicroBatches(readable.bus, POLICY)
    assert len(before.run()) == 40
    readable.write(numbered(20, first=40))
    readable.split()
    readable.write(numbered(20, first=60))
    readable.merge()
    readable.write(numbered(20, first=80))
    rows = MicroBatches(readable.bus, ReadPolicy(max_rows=30), before.offset).run()
    assert all_envelopes(rows) == Counter(numbered(60, first=40))
    shards = [row["partition"] for row in rows]
    children = [n for n, shard in enumerate(shards) if shard == "shardId-000000000002"]
    parents = [n for n, shard in enumerate(shards) if shard == "shardId-000000000000"]
    assert max(parents) < min(children)
    for lane in envelopes_by_lane(rows).values():
        assert is_in_order(lane, numbered(100))


def test_batch_of_a_resharded_stream_holds_all(
    readable: KinesisUnderTest,
) -> None:
    readable.write(numbered(20))
    readable.split()
    readable.write(numbered(20, first=20))
    assert all_envelopes(MicroBatches(readable.bus, POLICY).run()) == Counter(numbered(40))


def test_packed_records_are_unpacked_within_the_limit(readable: KinesisUnderTest) -> None:
    packed: list[bytes | None] = [
        aggregate("key", None, [b"%d-%d" % (record, event) for event in range(5)])
        for record in range(20)
    ]
    readable.write(packed)
    batches = MicroBatches(readable.bus, ReadPolicy(max_rows=30))
    rows = batches.run()
    wanted = [b"%d-%d" % (record, event) for record in range(20) for event in range(5)]
    assert all_envelopes(rows) == Counter(wanted)
    assert max(batches.sizes) <= 30
    assert len({(row["partition"], row["position"]) for row in rows}) == 100


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xf3\x89\x9a\xc2",
        b"\xf3\x89\x9a\xc2 something that only begins like a packed record",
        aggregate("key", None, [b"event"])[:-1] + b"x",
    ],
)
def test_record_that_is_not_packed_is_one_event(data: bytes) -> None:
    assert events_of(data) == [data]


def test_packed_empty_events_stay_events() -> None:
    assert events_of(aggregate("key", "17", [b"", b"x", b""])) == [b"", b"x", b""]


def test_nothing_is_lost_while_a_producer_writes(readable: KinesisUnderTest) -> None:
    """Plan by fetching: whatever the moment of planning, batches join without gap or overlap."""
    is_done = threading.Event()

    def produce() -> None:
        for first in range(0, 600, 20):
            readable.write(numbered(20, first))
        is_done.set()

    producer = threading.Thread(target=produce)
    producer.start()
    batches = MicroBatches(readable.bus, ReadPolicy(max_rows=70))
    rows = []
    while not is_done.is_set():
        rows += batches.run()
    producer.join()
    rows += batches.run()
    assert all_envelopes(rows) == Counter(numbered(600))
    for lane in envelopes_by_lane(rows).values():
        assert is_in_order(lane, numbered(600))


def test_records_that_expired_unread_are_noticed(readable: KinesisUnderTest) -> None:
    readable.write(numbered(10))
    batches = MicroBatches(readable.bus, POLICY)
    batches.run()
    assert batches.offset is not None
    for shard in batches.offset[readable.stream].values():
        shard["read_to_ms"] -= 2 * DAY_MS
    with pytest.raises(DataLossError):
        MicroBatches(readable.bus, POLICY, batches.offset).run()


def test_silent_shard_is_noted_as_read_now_and_then(readable: KinesisUnderTest) -> None:
    readable.write(numbered(10))
    batches = MicroBatches(readable.bus, POLICY)
    batches.run()
    assert batches.offset is not None
    for shard in batches.offset[readable.stream].values():
        shard["read_to_ms"] -= DAY_MS // 2
    assert batches.run() == []
    now_ms = time.time_ns() // 1_000_000
    for shard in batches.offset[readable.stream].values():
        assert now_ms - shard["read_to_ms"] < DAY_MS // 4


def test_streams_of_a_template_are_found(kinesis: Kinesis, tmp_path: Path) -> None:
    first, second = (KinesisUnderTest(kinesis, tmp_path) for _ in range(2))
    prefix = unique_name("lake")
    for number, bus in enumerate((first, second)):
        bus.stream = f"{prefix}-{number}"
        bus.create()
        bus.write(numbered(10, first=10 * number))
    settings = dataclasses.replace(
        first.settings, stream=None, stream_template=f"{prefix}-{{{{exchange}}}}"
    )
    rows = MicroBatches(KinesisBus(settings), POLICY).run()
    assert {row["stream"] for row in rows} == {first.stream, second.stream}
    assert all_envelopes(rows) == Counter(numbered(20))


def test_stream_is_read_by_its_arn(readable: KinesisUnderTest) -> None:
    readable.write(numbered(10))
    arn = f"arn:aws:kinesis:{REGION}:000000000000:stream/{readable.stream}"
    bus = KinesisBus(dataclasses.replace(readable.settings, stream=arn))
    assert len(MicroBatches(bus, POLICY).run()) == 10


def test_missing_stream_is_named(readable: KinesisUnderTest) -> None:
    bus = KinesisBus(dataclasses.replace(readable.settings, stream="nowhere"))
    with pytest.raises(BusError, match="nowhere"):
        MicroBatches(bus, POLICY).run()


def test_refused_login_shows_no_secret(readable: KinesisUnderTest) -> None:
    readable.server.faults.refuse_every_call(
        FailCall(code="UnrecognizedClientException", status=400, message="who are you")
    )
    with pytest.raises(BusError, match="who are you") as caught:
        MicroBatches(readable.bus, POLICY).run()
    assert SECRET not in str(caught.value)
