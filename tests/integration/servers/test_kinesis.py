"""The Kinesis server and its fault proxy, seen by aiobotocore."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from tests.servers.faults import AbortAfter, AbortBefore, Delay, Pass
from tests.servers.kinesis import Kinesis
from tests.servers.kinesis_faults import (
    ACCESS_DENIED,
    EXPIRED_TOKEN,
    INTERNAL_FAILURE,
    THROTTLE_CALL,
    FailCall,
    FailRecords,
    ShardLimit,
)
from tests.servers.readers import kinesis_client, read_kinesis

pytestmark = pytest.mark.broker


@pytest.fixture
async def client(kinesis: Kinesis) -> AsyncIterator[Any]:
    async with kinesis_client(kinesis.address) as client:
        yield client


async def put(client: Any, stream: str, *values: str) -> list[dict[str, Any]]:
    records = [{"Data": value.encode(), "PartitionKey": value} for value in values]
    answer = await client.put_records(StreamName=stream, Records=records)
    failed = [record for record in answer["Records"] if "ErrorCode" in record]
    assert answer["FailedRecordCount"] == len(failed)
    return list(answer["Records"])


async def stored(kinesis: Kinesis, stream: str) -> set[str]:
    return {record.value.decode() for record in await read_kinesis(kinesis.address, stream)}


async def test_put_records_are_read_back(
    kinesis: Kinesis, client: Any, kinesis_stream: str
) -> None:
    values = {str(n) for n in range(100)}
    await put(client, kinesis_stream, *values)
    records = await read_kinesis(kinesis.address, kinesis_stream)
    assert {record.value.decode() for record in records} == values
    assert all(record.key == record.value.decode() for record in records)
    assert len({record.partition for record in records}) == 2


async def test_killed_server_comes_back_with_its_records(
    kinesis: Kinesis, client: Any, kinesis_stream: str
) -> None:
    await put(client, kinesis_stream, "before")
    kinesis.kill()
    with pytest.raises(EndpointConnectionError):
        await put(client, kinesis_stream, "meanwhile")
    kinesis.start()
    await put(client, kinesis_stream, "after")
    assert await stored(kinesis, kinesis_stream) == {"before", "after"}


async def test_paused_server_answers_after_it_is_resumed(
    kinesis: Kinesis, client: Any, kinesis_stream: str
) -> None:
    kinesis.pause()
    late = asyncio.create_task(put(client, kinesis_stream, "late"))
    done, _ = await asyncio.wait([late], timeout=0.1)
    assert not done
    kinesis.resume()
    await late


async def test_refused_records_stand_at_their_place_in_the_answer(
    kinesis: Kinesis, client: Any, kinesis_stream: str
) -> None:
    kinesis.faults.plan(FailRecords.at(1, 3))
    results = await put(client, kinesis_stream, "a", "b", "c", "d")
    assert ["ErrorCode" in result for result in results] == [False, True, False, True]
    assert await stored(kinesis, kinesis_stream) == {"a", "c"}
    call = kinesis.faults.calls[-1]
    assert [record.partition_key for record in call.records] == ["a", "b", "c", "d"]
    assert call.refused == {1, 3}


async def test_failing_shard_leaves_the_other_alone(
    kinesis: Kinesis, client: Any, kinesis_stream: str
) -> None:
    values = [str(n) for n in range(20)]
    good = {result["ShardId"] for result in await put(client, kinesis_stream, *values)}
    victim = min(good)
    kinesis.faults.always(FailRecords.shard(victim))
    results = await put(client, kinesis_stream, *values)
    assert {result.get("ShardId") for result in results} == {None, *(good - {victim})}


@pytest.mark.parametrize("fault", [THROTTLE_CALL, INTERNAL_FAILURE, EXPIRED_TOKEN, ACCESS_DENIED])
async def test_refused_call_stores_nothing(
    kinesis: Kinesis, client: Any, kinesis_stream: str, fault: FailCall
) -> None:
    kinesis.faults.plan(fault, Pass())
    with pytest.raises(ClientError) as caught:
        await put(client, kinesis_stream, "out")
    assert caught.value.response["Error"]["Code"] == fault.code
    await put(client, kinesis_stream, "in")
    assert await stored(kinesis, kinesis_stream) == {"in"}


@pytest.mark.parametrize(
    ("is_reset", "error"), [(False, ConnectionClosedError), (True, EndpointConnectionError)]
)
async def test_aborted_call_is_stored_only_when_forwarded(
    kinesis: Kinesis, client: Any, kinesis_stream: str, is_reset: bool, error: type[Exception]
) -> None:
    kinesis.faults.plan(AbortBefore(is_reset), AbortAfter(is_reset))
    for value in ("lost", "kept"):
        with pytest.raises(error):
            await put(client, kinesis_stream, value)
    assert await stored(kinesis, kinesis_stream) == {"kept"}


async def test_delayed_call_answers_late(
    kinesis: Kinesis, client: Any, kinesis_stream: str
) -> None:
    kinesis.faults.plan(Delay(0.1))
    clock = asyncio.get_running_loop().time
    start = clock()
    await put(client, kinesis_stream, "late")
    assert clock() - start >= 0.1


async def test_limited_shards_refuse_what_exceeds_their_rate(
    kinesis: Kinesis, client: Any, kinesis_stream: str
) -> None:
    kinesis.faults.limit_shards(ShardLimit(records_per_second=10, clock=lambda: 0.0))
    results = await put(client, kinesis_stream, *(str(n) for n in range(100)))
    assert sum("ErrorCode" not in result for result in results) == 20


async def test_denied_login_refuses_every_operation(kinesis: Kinesis, client: Any) -> None:
    kinesis.faults.refuse_every_call(ACCESS_DENIED)
    with pytest.raises(ClientError):
        await client.list_streams()
    kinesis.faults.heal()
    assert "StreamNames" in await client.list_streams()


async def test_stream_arn_and_on_demand_streams_are_understood(
    kinesis: Kinesis, client: Any, kinesis_stream: str
) -> None:
    summary = await client.describe_stream_summary(StreamName=kinesis_stream)
    arn = summary["StreamDescriptionSummary"]["StreamARN"]
    record = {"Data": b"by arn", "PartitionKey": "k"}
    await client.put_records(StreamARN=arn, Records=[record])
    assert await stored(kinesis, kinesis_stream) == {"by arn"}
    mode = {"StreamMode": "ON_DEMAND"}
    await client.create_stream(StreamName=f"{kinesis_stream}-od", StreamModeDetails=mode)


async def test_stopped_proxy_refuses_connections(kinesis: Kinesis, client: Any) -> None:
    kinesis.stop()
    with pytest.raises(EndpointConnectionError):
        await client.list_streams()
