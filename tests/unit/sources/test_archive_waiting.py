"""Waiting for data that is not recorded yet, by a clock the test owns."""

from pathlib import Path

import pytest

from tardis_machine.model.errors import OfflineError, RequestError
from tardis_machine.model.time import MINUTE_US, SECOND_US
from tests.servers.data_api import DataApiStub
from tests.unit.sources.recorded import FakeTime, all_lines, archive, minute, read, recorded


async def test_recorded_minutes_come_at_once_and_later_ones_one_by_one(tmp_path: Path) -> None:
    time = FakeTime(now_us=minute(10) + 20 * SECOND_US)
    async with (
        DataApiStub(recorded(8), suggested_minutes=10) as stub,
        archive(stub.endpoint, tmp_path, time) as source,
    ):
        assert await read(source, 0, 8, wait_minutes=6) == all_lines(0, 8)
    # Minute 4 counts as recorded at 10:00, minute 5 at 11:00.
    assert [(ask.offset, ask.minutes) for ask in stub.asks] == [
        (3, 1),
        (0, 1),
        (1, 2),
        (4, 1),
        (5, 1),
        (6, 1),
        (7, 1),
    ]
    assert time.pauses == [40.1, 60.0, 60.0]


async def test_a_range_in_the_future_waits_for_its_start(tmp_path: Path) -> None:
    time = FakeTime(now_us=minute(-5))
    async with (
        DataApiStub(recorded(3)) as stub,
        archive(stub.endpoint, tmp_path, time) as source,
    ):
        assert await read(source, 0, 2, wait_minutes=30) == all_lines(0, 2)
    assert time.pauses[0] == 35 * 60 + 0.1
    assert time.now_us >= minute(31)
    assert stub.offsets == [0, 1]


async def test_a_range_in_the_past_does_not_wait(tmp_path: Path) -> None:
    time = FakeTime(now_us=minute(3) + 6 * MINUTE_US)
    async with (
        DataApiStub(recorded(3)) as stub,
        archive(stub.endpoint, tmp_path, time) as source,
    ):
        assert await read(source, 0, 3, wait_minutes=6) == all_lines(0, 3)
    assert time.pauses == []
    assert stub.offsets == [2, 0, 1]


async def test_without_waiting_the_data_api_decides(tmp_path: Path) -> None:
    time = FakeTime(now_us=minute(-1000))
    async with (
        DataApiStub(recorded(3)) as stub,
        archive(stub.endpoint, tmp_path, time) as source,
    ):
        assert await read(source, 0, 3) == all_lines(0, 3)
    assert time.pauses == []


async def test_a_start_that_is_days_ahead_is_refused_at_once(tmp_path: Path) -> None:
    time = FakeTime(now_us=minute(-1441))
    async with (
        DataApiStub(recorded(3)) as stub,
        archive(stub.endpoint, tmp_path, time) as source,
    ):
        with pytest.raises(RequestError, match='Invalid "from" argument: 2024-03-01T00:00'):
            await read(source, 0, 2, wait_minutes=6)
    assert time.pauses == []


async def test_nothing_is_waited_for_without_a_network(tmp_path: Path) -> None:
    time = FakeTime(now_us=minute(-5))
    async with archive("http://127.0.0.1:9", tmp_path, time, offline=True) as source:
        with pytest.raises(OfflineError, match="the cache lacks bitmex"):
            await read(source, 0, 2, wait_minutes=1000)
    assert time.pauses == []
