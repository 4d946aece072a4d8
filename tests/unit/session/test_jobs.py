"""Jobs: what they remember, and where they begin again."""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tardis_machine.model.errors import RequestError
from tardis_machine.model.ndjson import decode_lines
from tardis_machine.model.time import MINUTE_US, parse_us
from tardis_machine.session.context import SessionContext
from tardis_machine.session.jobs import JobFile, JobRun, JobState, ReplayProgress
from tardis_machine.session.orders import ReplayOrder
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.sources.simulator import SimulatorSettings, simulate

START_US = parse_us("2024-03-01T00:00:00.000Z")


class Stream:
    """Stands for a stream to the log: keeps what it gets, and flushes it as told."""

    def __init__(self, *, settles: bool = True) -> None:
        self.lines: list[bytes] = []
        self.saved_mark = 0
        self._mark = 0
        self._settles = settles
        self.is_closed = False

    async def publish(self, lines: bytes, mark: int = 0, events: int | None = None) -> None:
        self.lines.append(lines)
        self._mark = mark

    async def save(self) -> None:
        if self._settles:
            self.saved_mark = self._mark

    def close(self) -> None:
        self.is_closed = True

    @property
    def records(self) -> list[Any]:
        return decode_lines(b"".join(self.lines))


def order(**fields: Any) -> ReplayOrder:
    return ReplayOrder(
        **{
            "exchange": "bitmex",
            "symbols": ("XBTUSD",),
            "data_types": ("trade", "trade_bar_10s"),
            "start": "2024-03-01T00:00",
            "end": "2024-03-01T00:03",
            **fields,
        }
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    simulate(
        SimulatorSettings(out=folder, minutes=3, exchanges=("bitmex",), symbols=("XBTUSD",), rate=5)
    )
    return folder


async def run(cache: Path, state: JobState, *streams: Stream) -> JobRun:
    waiting = list(streams)
    async with ArchiveSource(ArchiveSettings(cache_dir=cache, offline=True)) as source:
        job = JobRun(
            state,
            SessionContext(source, lambda: START_US + MINUTE_US),
            lambda _: waiting.pop(0),  # type: ignore[arg-type,return-value]
        )
        await job.run()
    return job


async def test_settled_job_is_done_and_has_published_everything(cache: Path) -> None:
    stream = Stream()
    job = await run(cache, JobState.fresh([order()]), stream)
    await job.note_progress()
    assert job.state.progress == [ReplayProgress(START_US + 2 * MINUTE_US, is_done=True)]
    assert job.records == len(stream.records) > 100
    assert job.share == 1.0


async def test_job_that_is_not_flushed_has_no_settled_minute(cache: Path) -> None:
    job = await run(cache, JobState.fresh([order()]), Stream(settles=False))
    assert job.state.progress == [ReplayProgress()]
    await job.note_progress()
    assert job.state.progress[0].settled_us == 0


async def test_continued_job_publishes_the_same_records_from_its_minute_on(cache: Path) -> None:
    whole = Stream()
    await run(cache, JobState.fresh([order()]), whole)
    rest = Stream()
    state = JobState((order(),), [ReplayProgress(START_US + MINUTE_US)])
    await run(cache, state, rest)
    minute = "2024-03-01T00:01:00"
    assert rest.records == [each for each in whole.records if each.local_timestamp >= minute]
    # A bar that began in the settled minute and ended after it.
    assert any(each.type == "trade_bar" for each in rest.records)


async def test_finished_replays_of_a_job_are_left_out(cache: Path) -> None:
    state = JobState(
        (order(), order(data_types=("book_change",))),
        [
            ReplayProgress(is_done=True),
            ReplayProgress(),
        ],
    )
    stream = Stream()
    await run(cache, state, stream)
    assert {each.type for each in stream.records} == {"book_change"}


async def test_failed_replay_is_published_as_an_error_and_not_done(cache: Path) -> None:
    stream = Stream()
    state = JobState.fresh([order(end="2024-03-01T00:09")])
    with pytest.raises(Exception, match="Offline"):
        await run(cache, state, stream)
    assert stream.records[-1].type == "error"
    assert not state.progress[0].is_done


def test_state_survives_and_other_replays_under_the_same_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs" / "march.json"
    file = JobFile(path)
    state = file.load([order()])
    state.progress[0].settled_us = START_US
    file.save(state)
    file.close()
    again = JobFile(path)
    assert again.load([order()]).progress[0].settled_us == START_US
    with pytest.raises(RequestError, match="started with other replays"):
        again.load([order(symbols=())])
    path.write_text("?")
    with pytest.raises(RequestError, match="is not a valid job state file"):
        again.load([order()])
    again.close()


def test_state_is_flushed_before_and_after_it_replaces_the_old_one(tmp_path: Path) -> None:
    calls: list[str] = []

    def look(_: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and function in (os.fsync, os.replace):
            calls.append(function.__name__)

    file = JobFile(tmp_path / "march.json")
    sys.setprofile(look)
    try:
        file.save(JobState.fresh([order()]))
    finally:
        sys.setprofile(None)
        file.close()
    assert calls == ["fsync", "replace", "fsync"]


def test_job_runs_in_one_process_at_a_time(tmp_path: Path) -> None:
    file = JobFile(tmp_path / "march.json")
    with pytest.raises(RequestError, match="running in another process"):
        JobFile(tmp_path / "march.json")
    file.close()
