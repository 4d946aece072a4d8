"""Own recordings as a source of replays."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tardis_machine.model.errors import OfflineError
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.recording.markers import Marker, marker_line
from tardis_machine.sources.settings import ArchiveSettings
from tests.unit.sources.recorded import all_lines, fill_cache, lines, minutes, put_in_cache, read


def archive(tmp_path: Path) -> ArchiveSource:
    settings = ArchiveSettings(cache_dir=tmp_path / "cache", offline=True)
    return ArchiveSource(settings, recordings=tmp_path / "own")


async def test_recording_comes_first_and_is_never_deleted(tmp_path: Path) -> None:
    fill_cache(tmp_path / "cache", 3)
    put_in_cache(tmp_path / "own", 0, b"own\n", ())
    put_in_cache(tmp_path / "own", 1, b"own\n", ())
    async with archive(tmp_path) as source:
        for _ in range(2):
            assert await read(source, 0, 2, auto_cleanup=True) == b"own\nown\n"


async def test_recording_is_not_completed_by_others(tmp_path: Path) -> None:
    fill_cache(tmp_path / "cache", 3)
    put_in_cache(tmp_path / "own", 0, b"own\n", ())
    async with archive(tmp_path) as source:
        assert await read(source, 0, 3) == all_lines(0, 3)


async def test_hole_in_a_recording_is_a_disconnect(tmp_path: Path) -> None:
    for number in (0, 2):
        put_in_cache(tmp_path / "own", number, lines(number), ())
    with capture_logs() as logs:
        async with archive(tmp_path) as source:
            assert await read(source, 0, 3) == lines(0) + b"\n" + lines(2)
    assert [entry["minutes"] for entry in logs] == [1]


async def test_error_names_the_recording(tmp_path: Path) -> None:
    async with archive(tmp_path) as source:
        with pytest.raises(OfflineError, match=r"own/feeds/bitmex.* lacks the first or the last"):
            await read(source, 0, 2)


async def test_parts_of_a_replay_come_from_where_the_whole_of_it_does(tmp_path: Path) -> None:
    fill_cache(tmp_path / "cache", 3)
    put_in_cache(tmp_path / "own", 1, b"own\n", ())
    async with archive(tmp_path) as source:
        assert await read(source, 1, 2) == b"own\n"
        assert await read(source, 1, 2, whole_range=minutes(0, 3)) == all_lines(1, 2)


async def test_recorder_is_told_where_its_recording_is_read(tmp_path: Path) -> None:
    fill_cache(tmp_path / "cache", 3)
    named = b"\n" + marker_line(minutes(0, 1).start_us, Marker("box-7"))
    put_in_cache(tmp_path / "own", 0, named, ())
    put_in_cache(tmp_path / "own", 1, b"\n", ())
    async with archive(tmp_path) as source:
        told = [source.recorder_of("bitmex", minutes(*each)) for each in ((0, 2), (0, 3), (1, 2))]
    assert told == ["box-7", "", ""]
    async with ArchiveSource(source.settings) as source:
        assert source.recorder_of("bitmex", minutes(0, 2)) == ""
