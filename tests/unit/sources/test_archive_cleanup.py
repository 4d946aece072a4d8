"""Replays that delete their slices: theirs, all of theirs, and nothing else."""

import asyncio
from pathlib import Path

from tardis_machine.sources.cache import SliceFolder
from tests.servers.data_api import DataApiStub
from tests.unit.sources.recorded import (
    EXCHANGE,
    TRADES,
    all_lines,
    archive,
    files_in,
    lines,
    minutes,
    put_in_cache,
    read,
    recorded,
)


async def test_auto_cleanup_removes_what_was_read(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(20), suggested_minutes=4) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        assert await read(source, 0, 20, auto_cleanup=True) == all_lines(0, 20)
        assert await read(source, 0, 20, (), auto_cleanup=True) == all_lines(0, 20)
    assert files_in(tmp_path) == []
    assert not SliceFolder(tmp_path, EXCHANGE, TRADES).path.exists()


async def test_auto_cleanup_spares_what_the_replay_does_not_own(tmp_path: Path) -> None:
    shared = put_in_cache(tmp_path, 1, lines(1), ())
    outside = put_in_cache(tmp_path, 30, lines(30))
    async with (
        DataApiStub(recorded(4)) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        assert await read(source, 0, 4, auto_cleanup=True) == all_lines(0, 4)
    assert files_in(tmp_path) == sorted([shared, outside])


async def test_auto_cleanup_of_an_abandoned_replay_leaves_nothing(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(50)) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        chunks = source.lines(EXCHANGE, TRADES, minutes(0, 50), auto_cleanup=True)
        assert (await anext(chunks)).data == lines(0)
        await chunks.aclose()
    assert files_in(tmp_path) == []


async def test_two_replays_that_clean_up_after_each_other_both_finish(tmp_path: Path) -> None:
    async with (
        DataApiStub(recorded(30)) as stub,
        archive(stub.endpoint, tmp_path) as source,
    ):
        both = await asyncio.gather(
            read(source, 0, 30, auto_cleanup=True), read(source, 0, 30, auto_cleanup=True)
        )
    assert list(both) == [all_lines(0, 30)] * 2
