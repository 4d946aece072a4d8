"""Whoever replays a minute, and from when on: events of the same identity are the same."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tardis_machine.bronze.content import Content
from tardis_machine.bronze.decode import Decoder
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import identities
from tardis_machine.bronze.series import Origin
from tardis_machine.model.ndjson import NormalizedRecord, decode_lines
from tardis_machine.model.requests import NormalizedReplayRequest
from tardis_machine.model.time import DAY_US, MINUTE_US, parse_us
from tardis_machine.session.contents import plan_contents
from tardis_machine.session.context import SessionContext
from tardis_machine.session.jobs import JobRun, JobState, ReplayProgress
from tardis_machine.session.orders import ReplayOrder
from tardis_machine.session.plan import plan_normalized
from tardis_machine.session.response import client_body
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.sources.simulator import SimulatorSettings, simulate

NOW_US = parse_us("2026-01-01T00:00:00.000Z")
DAY = parse_us("2024-03-01T00:00:00.000Z")
TYPES = (
    *("trade", "book_change", "derivative_ticker", "quote_10s", "book_snapshot_3_0ms"),
    *("trade_bar_10ticks", "trade_bar_1m", "trade_bar_50vol"),
)

Events = dict[str, NormalizedRecord]


class Stream:
    """Stands for a stream to the log: keeps what it gets, and encodes it as a publisher does."""

    def __init__(self, contents: Mapping[str, Content]) -> None:
        self._encoder = Encoder("test", Origin.REPLAY, contents=contents)
        self.saved_mark = 0
        self.events: Events = {}

    async def publish(self, lines: bytes, mark: int = 0, events: int | None = None) -> None:
        envelopes = self._encoder.encode(decode_lines(lines), NOW_US)
        records = Decoder().decode(envelope.data for envelope in envelopes)
        found = dict(zip(identities(envelopes), records, strict=True))
        assert len(found) == len(records)
        assert not found.keys() & self.events.keys()
        self.events |= found

    async def save(self) -> None:
        """Nothing is on a disk."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give an hour after a midnight, and some minutes around the next one, with disconnects."""
    folder = tmp_path_factory.mktemp("cache")
    for start, minutes in (("2024-03-01", 63), ("2024-03-02T23:50", 20)):
        simulate(
            SimulatorSettings(
                out=folder,
                start=start,
                minutes=minutes,
                exchanges=("bitmex",),
                symbols=("XBTUSD",),
                rate=3,
                with_gaps=True,
            )
        )
    return folder


async def publish(cache: Path, settled_us: int = 0, **fields: Any) -> Events:
    """Return what a job publishes."""
    order = ReplayOrder(
        **{
            "exchange": "bitmex",
            "symbols": ("XBTUSD",),
            "data_types": TYPES,
            "start": "2024-03-01T01:00",
            "end": "2024-03-01T01:03",
            **fields,
        }
    )
    streams: list[Stream] = []

    def open_stream(contents: Mapping[str, Content]) -> Any:
        streams.append(Stream(contents))
        return streams[-1]

    async with ArchiveSource(ArchiveSettings(cache_dir=cache, offline=True)) as source:
        state = JobState((order,), [ReplayProgress(settled_us)])
        await JobRun(state, SessionContext(source, lambda: NOW_US), open_stream).run()
    return streams[0].events


async def serve(cache: Path, **fields: Any) -> Events:
    """Return what a server publishes."""
    request = NormalizedReplayRequest(
        **{
            "exchange": "bitmex",
            "symbols": ["XBTUSD"],
            "data_types": list(TYPES),
            "start": "2024-03-01T01:00",
            "end": "2024-03-01T01:03",
            **fields,
        }
    )
    plan = plan_normalized([request], NOW_US)
    stream: Any = Stream(plan_contents(plan, NOW_US))
    async with ArchiveSource(ArchiveSettings(cache_dir=cache, offline=True)) as source:
        async for _ in client_body(plan, SessionContext(source, lambda: NOW_US), stream):
            pass
    events: Events = stream.events
    return events


def since(events: Events, start: str) -> Events:
    return {name: event for name, event in events.items() if event.local_timestamp >= start}


async def test_replays_with_different_starts_give_equal_events(cache: Path) -> None:
    early = await publish(cache, start="2024-03-01T00:57")
    late = await publish(cache)
    assert late
    assert since(early, "2024-03-01T01:00") == late
    assert {event.type for event in late.values()} >= {
        "trade",
        "book_change",
        "book_snapshot",
        "trade_bar",
    }
    assert not any("partial" in name for name in late)


async def test_replays_in_parts_give_the_events_of_one(cache: Path) -> None:
    whole = await publish(cache, start="2024-03-01T00:58")
    parts = [
        await publish(cache, start=f"2024-03-01T{start}", end=f"2024-03-01T{end}")
        for start, end in (("01:01", "01:03"), ("00:58", "01:00"), ("00:59", "01:02"))
    ]
    joined: Events = {}
    for part in parts:
        assert {name: part[name] for name in part.keys() & joined.keys()} == {
            name: joined[name] for name in part.keys() & joined.keys()
        }
        joined |= part
    assert joined == whole


async def test_server_differs_only_in_the_capture(cache: Path) -> None:
    job = await publish(cache)
    served = await serve(cache)
    marked = {name for name in served if ":partial:" in name}
    assert {served[name].type for name in marked} >= {"book_change", "trade_bar", "book_snapshot"}
    complete = served.keys() - marked
    assert {name: served[name] for name in complete} == {name: job[name] for name in complete}
    assert {served[name].type for name in complete} >= {"trade"}
    assert marked.isdisjoint(job)


async def test_server_asked_from_midnight_on_with_disconnects_gives_what_a_job_gives(
    cache: Path,
) -> None:
    served = await serve(cache, start="2024-03-01", with_disconnect_messages=True)
    assert since(served, "2024-03-01T01:00") == await publish(cache)


async def test_without_warm_up_events_have_another_capture(cache: Path) -> None:
    complete = await publish(cache)
    cold = await publish(cache, warm_up=False)
    marked = {name for name in cold if ":partial:2024-03-01T01:00" in name}
    assert {cold[name].type for name in marked} >= {"book_change", "book_snapshot", "trade_bar"}
    rest = cold.keys() - marked
    assert {name: cold[name] for name in rest} == {name: complete[name] for name in rest}


@pytest.mark.parametrize(
    "fields",
    [
        {"start": "2024-03-02T23:52", "end": "2024-03-03T00:08", "warm_up": False},
        {"start": "2024-03-03T00:01", "end": "2024-03-03T00:08"},
        {"start": "2024-03-03T00:01", "end": "2024-03-03T00:08", "data_types": ("trade",)},
    ],
)
async def test_continued_job_gives_the_events_that_an_uninterrupted_one_gives(
    cache: Path, fields: dict[str, Any]
) -> None:
    whole = await publish(cache, **fields)
    midnight_us = DAY + 2 * DAY_US
    for minute in (-3, 0, 1, 3, 5):
        settled_us = midnight_us + minute * MINUTE_US
        if settled_us <= parse_us(f"{fields['start']}:00.000Z"):
            continue
        rest = await publish(cache, settled_us, **fields)
        text = f"2024-03-0{2 if minute < 0 else 3}T{'23' if minute < 0 else '00'}:{minute % 60:02d}"
        assert rest == since(whole, text)


async def test_day_is_complete_whatever_came_before_and_after(cache: Path) -> None:
    midnight = "2024-03-03T00:00"
    across = await publish(cache, start="2024-03-02T23:52", end="2024-03-03T00:05", warm_up=False)
    before = await publish(cache, start="2024-03-02T23:52", end=midnight, warm_up=False)
    after = await publish(cache, start=midnight, end="2024-03-03T00:05")
    assert across == before | after
    # The last minute of the day is not lost, though no trade closes its bar.
    last = [event for event in before.values() if getattr(event, "name", "") == "trade_bar_1m"][-1]
    assert (last.timestamp, last.local_timestamp) == (
        *("2024-03-03T00:00:00.000Z", "2024-03-02T23:59:59.999999Z"),
    )
