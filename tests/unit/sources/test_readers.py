"""Readers that let go of their files while a client is slow, and go on at the same place."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import create_autospec

import psutil
import pytest

from tardis_machine.model.errors import SliceError
from tardis_machine.sources.cache import SliceFile
from tardis_machine.sources.fetch_plan import Span
from tardis_machine.sources.recorded_slices import ReadySpan, SpanReader, WaitingReaders
from tardis_machine.sources.turns import Turns
from tests.unit.sources.recorded import all_lines, files_in, fill_cache, minute

MINUTES = 3
PIECE_BYTES = 60
CONTENT = all_lines(0, MINUTES)
PATIENCE_SECONDS = 60


async def refuse(_: ReadySpan, error: SliceError) -> ReadySpan:
    raise error


@pytest.fixture
def ready(tmp_path: Path) -> ReadySpan:
    fill_cache(tmp_path, MINUTES)
    files = tuple(
        SliceFile(path, minute(number), 1) for number, path in enumerate(sorted(files_in(tmp_path)))
    )
    return ReadySpan(Span(minute(0), minute(MINUTES)), files)


@pytest.fixture
def new_reader(ready: ReadySpan) -> Callable[[], SpanReader]:
    return lambda: SpanReader(ready, PIECE_BYTES, refuse, Turns())


def open_slices() -> int:
    return sum(Path(file.path).suffix == ".zst" for file in psutil.Process().open_files())


@pytest.mark.parametrize("every", [1, 2, 5])
async def test_suspended_reader_goes_on_where_it_stopped(
    new_reader: Callable[[], SpanReader], every: int
) -> None:
    reader, got = new_reader(), []
    while await reader.advance():
        got.append(reader.take())
        if len(got) % every == 0:
            reader.suspend()
    assert len(got) > MINUTES
    assert b"".join(got) == CONTENT
    reader.close()


async def test_suspended_reader_fetches_a_slice_that_is_gone(
    ready: ReadySpan, tmp_path: Path
) -> None:
    async def fetch(_: ReadySpan, error: SliceError) -> ReadySpan:
        fill_cache(tmp_path, MINUTES)
        return ready

    reader = SpanReader(ready, PIECE_BYTES, fetch, Turns())
    got = []
    while await reader.advance():
        got.append(reader.take())
        if len(got) == 3:
            for path in files_in(tmp_path):
                path.unlink()
            reader.suspend()
    assert b"".join(got) == CONTENT


async def test_reader_whose_slice_is_gone_for_good_fails(
    new_reader: Callable[[], SpanReader], tmp_path: Path
) -> None:
    reader = new_reader()
    assert await reader.advance()
    reader.suspend()
    for path in files_in(tmp_path):
        path.unlink()
    with pytest.raises(SliceError):
        await reader.advance()


async def test_readers_that_wait_long_close_their_files_when_there_are_many(
    new_reader: Callable[[], SpanReader],
) -> None:
    waiting, few = WaitingReaders(few=2), 2
    readers = [new_reader() for _ in range(few + 1)]
    assert all([await reader.advance() for reader in readers])
    with waiting.waiting(readers[0]), waiting.waiting(readers[1]):
        await asyncio.sleep(0.3)
        assert open_slices() == few + 1
        async with asyncio.timeout(PATIENCE_SECONDS):
            while open_slices() > 1:
                # Whoever begins to wait looks after the others.
                with waiting.waiting(readers[2]):
                    await asyncio.sleep(0.05)
    rest = [readers[0].take()]
    while await readers[0].advance():
        rest.append(readers[0].take())
    assert b"".join(rest) == CONTENT
    for reader in readers:
        reader.close()


async def test_no_more_readers_than_allowed_wait_with_open_files(
    new_reader: Callable[[], SpanReader],
) -> None:
    waiting = WaitingReaders(most=2)
    readers = [new_reader() for _ in range(4)]
    with ExitStack() as stack:
        for reader in readers:
            assert await reader.advance()
            stack.enter_context(waiting.waiting(reader))
        assert open_slices() == 2
    for reader in readers:
        taken = [reader.take()]
        while await reader.advance():
            taken.append(reader.take())
        assert b"".join(taken) == CONTENT
        reader.close()


async def test_reader_waits_longer_every_time_it_was_suspended(
    new_reader: Callable[[], SpanReader],
) -> None:
    reader = new_reader()
    reader.begin_wait(now=100.0)
    assert not reader.has_waited(now=100.09)
    assert reader.has_waited(now=100.11)
    for _ in range(3):
        reader.suspend()
    assert not reader.has_waited(now=100.7)
    assert reader.has_waited(now=100.9)


def test_many_readers_leave_no_room_behind() -> None:
    waiting = WaitingReaders()
    with ExitStack() as stack:
        for _ in range(500):
            reader = create_autospec(SpanReader, instance=True)
            reader.has_waited.return_value = False
            stack.enter_context(waiting.waiting(reader))
    assert all(sys.getsizeof(value) < 500 for value in vars(waiting).values())
