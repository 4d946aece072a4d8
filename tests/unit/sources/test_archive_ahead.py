"""Downloads ahead of the reader: bounded, fair, and ended with the reader."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from tardis_machine.model.errors import UpstreamStatusError
from tardis_machine.sources.archive import SliceChunk
from tests.servers.data_api import DataApiStub, Fault
from tests.unit.sources.recorded import (
    EXCHANGE,
    TRADES,
    all_lines,
    archive,
    archive_tasks,
    cached_names,
    files_in,
    lines,
    minutes,
    read,
    recorded,
    until,
)


async def numbered(chunks: AsyncIterator[SliceChunk]) -> AsyncIterator[tuple[int, SliceChunk]]:
    number = 0
    async for chunk in chunks:
        yield number, chunk
        number += 1


async def test_a_failure_ahead_surfaces_at_the_next_slice(tmp_path: Path) -> None:
    fault = Fault(offset=9, times=None, status=404)
    async with (
        DataApiStub(recorded(20), faults=[fault]) as stub,
        archive(stub.endpoint, tmp_path) as source,
        aclosing(source.lines(EXCHANGE, TRADES, minutes(0, 20))) as chunks,
    ):
        assert (await anext(chunks)).data == lines(0)
        await until(lambda: not archive_tasks())
        with pytest.raises(UpstreamStatusError):
            await anext(chunks)


async def test_closing_early_stops_downloads_and_leaves_no_trace(tmp_path: Path) -> None:
    stalls = [Fault(offset=number, times=None, stalls=True) for number in range(2, 30)]
    async with (
        DataApiStub(recorded(40), faults=stalls) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        chunks = source.lines(EXCHANGE, TRADES, minutes(0, 40))
        assert (await anext(chunks)).data == lines(0)
        assert (await anext(chunks)).data == lines(1)
        await until(lambda: stub.in_flight == 28)
        await chunks.aclose()
        assert archive_tasks() == []
        assert [path for path in files_in(tmp_path) if path.suffix == ".unconfirmed"] == []
        await until(lambda: stub.in_flight == 0)


async def test_a_cancelled_reader_leaves_no_trace(tmp_path: Path) -> None:
    stall = Fault(offset=1, times=None, stalls=True)
    async with (
        DataApiStub(recorded(3), faults=[stall]) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        reader = asyncio.ensure_future(read(source, 0, 3))
        await until(lambda: stub.offsets == [2, 0, 1])
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert archive_tasks() == []
    assert cached_names(tmp_path) == ["2024/03/01/00/00.json.zst", "2024/03/01/00/02.json.zst"]


async def test_the_request_limit_holds_over_concurrent_replays(tmp_path: Path) -> None:
    slow = Fault(times=None, delay_seconds=0.005)
    async with (
        DataApiStub(recorded(20), faults=[slow]) as stub,
        archive(stub.endpoint, tmp_path, max_concurrent_requests=5) as source,
    ):
        filters = [(), *((TRADES[0], *extra) for extra in ((), TRADES))]
        replays = (read(source, 0, 20, chosen) for chosen in filters)
        assert await asyncio.gather(*replays) == [all_lines(0, 20)] * 3
    assert stub.max_in_flight == 5


async def test_a_small_replay_is_not_held_up_by_a_large_one(tmp_path: Path) -> None:
    slow = Fault(times=None, delay_seconds=0.005)
    async with (
        DataApiStub(recorded(200), faults=[slow]) as stub,
        archive(stub.endpoint, tmp_path, max_concurrent_requests=2) as source,
    ):
        large = asyncio.ensure_future(read(source, 0, 200))
        await until(lambda: len(stub.asks) >= 10)
        await read(source, 0, 2, ())
        assert not large.done()
        assert len(stub.asks) < 60
        assert await large == all_lines(0, 200)


async def test_downloads_stay_a_bounded_number_ahead(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(100)) as stub,
        archive(stub.endpoint, tmp_path, max_slices_ahead=5) as source,
        aclosing(source.lines(EXCHANGE, TRADES, minutes(0, 100))) as chunks,
    ):
        ahead = [len(stub.asks) - number async for number, _ in numbered(chunks)]
    # Five wait, one is about to, and the last minute was asked for first.
    assert max(ahead) <= 8
    assert len(ahead) == 100
