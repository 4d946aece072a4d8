"""Replays of own recordings name the recorder, whether for a client or in a job."""

from pathlib import Path

from tardis_machine.session.contents import recorded_contents
from tardis_machine.session.orders import ReplayOrder
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.recording.markers import Marker, marker_line
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.telemetry.clock import system_clock
from tests.unit.sources.recorded import minute, put_in_cache


async def test_recorder_stands_with_what_is_read_from_its_recording(tmp_path: Path) -> None:
    put_in_cache(tmp_path / "own", 0, marker_line(minute(0), Marker("box-7")), ())
    found = []
    settings = ArchiveSettings(cache_dir=tmp_path / "cache", offline=True)
    async with ArchiveSource(settings, recordings=tmp_path / "own") as source:
        for end in ("2024-03-01T00:01", "2024-03-01T00:02"):
            order = ReplayOrder(
                exchange="bitmex",
                data_types=("trade", "book_change"),
                start="2024-03-01T00:00",
                end=end,
            )
            job = order.plan(system_clock())
            contents = recorded_contents(job.contents, job.plan, source)
            found.append(contents["bitmex"].recorder)
            assert contents["bitmex"].covered_us == job.contents["bitmex"].covered_us
    assert found == ["box-7", ""]
