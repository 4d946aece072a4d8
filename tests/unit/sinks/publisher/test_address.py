"""Where the processes of a server meet, and what is left of servers that were killed."""

import asyncio
from pathlib import Path

import pytest

from tardis_machine.model.errors import SinkError
from tardis_machine.sinks.publisher.address import DOORBELL, is_deserted, listening_doorbell
from tardis_machine.sinks.publisher.process import PublisherProcess
from tests.unit.sinks.storage.test_log import file_size_limit


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def make_process(root: Path) -> PublisherProcess:
    return PublisherProcess("nothing", None, root, drain_seconds=0)


async def end(process: PublisherProcess) -> None:
    await process.end(asyncio.create_task(asyncio.sleep(0)))


def test_doorbell_is_deserted_once_nobody_can_hear_it(tmp_path: Path) -> None:
    path = tmp_path / DOORBELL
    assert not is_deserted(path)
    bell = listening_doorbell(path)
    assert not is_deserted(path)
    bell.close()
    assert is_deserted(path)


async def test_leftovers_of_killed_servers_are_removed_and_nothing_else(
    temporary: Path, tmp_path: Path
) -> None:
    running = await make_process(tmp_path / "root")
    killed = temporary / "tardis-machine-killed"
    killed.mkdir()
    listening_doorbell(killed / DOORBELL).close()
    (killed / "status").write_bytes(bytes(4096))
    metrics = temporary / "tardis-machine-metrics"
    metrics.mkdir()
    second = await make_process(tmp_path / "root")
    assert not killed.exists()
    assert metrics.exists()
    for process in (running, second):
        assert process.address.doorbell.exists()
        await end(process)
    assert names(temporary) == [metrics.name]


async def test_temporary_folder_without_room_is_named_and_left_clean(temporary: Path) -> None:
    with file_size_limit(4096), pytest.raises(SinkError, match=r"256 KiB in .*File too large"):
        await make_process(temporary / "root")
    assert names(temporary) == []


async def test_temporary_folder_that_is_too_deep_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(SinkError, match=r"too long.*TMPDIR"):
        await make_process(tmp_path / "root")
