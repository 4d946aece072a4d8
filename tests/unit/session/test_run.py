"""Streams of a request: others get their turn while one computes."""

import asyncio
import json
import time
from contextlib import aclosing
from pathlib import Path

import zstandard

from tardis_machine.model.requests import NormalizedReplayRequest
from tardis_machine.session.context import SessionContext
from tardis_machine.session.plan import NormalizedPlan, plan_normalized
from tardis_machine.session.run import client_records
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.cache import SliceFolder
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.sources.turns import TURN_SECONDS
from tardis_machine.telemetry.clock import system_clock

CHANGES = 300


def plan_of(*data_types: str) -> NormalizedPlan:
    request = NormalizedReplayRequest(
        exchange="bitmex", start="2024-03-01", end="2024-03-01T00:01", data_types=list(data_types)
    )
    return plan_normalized([request], system_clock())


def book_lines() -> bytes:
    """A snapshot and many updates of its best level, less than one piece of a slice."""
    lines = []
    for number in range(CHANGES):
        action = "update" if number else "partial"
        level = {"symbol": "XBTUSD", "id": 1, "side": "Buy", "size": number + 1, "price": 100}
        message = json.dumps({"table": "orderBookL2", "action": action, "data": [level]})
        lines.append(f"2024-03-01T00:00:00.{number:07d}Z {message}\n")
    return "".join(lines).encode()


def write_slice(cache: Path, plan: NormalizedPlan) -> None:
    (segment,) = plan.entries[0].segments
    base = SliceFolder(cache, "bitmex", segment.filters).base_path(segment.range.start_us)
    base.parent.mkdir(parents=True)
    base.with_name(base.name + ".zst").write_bytes(zstandard.compress(book_lines()))


async def test_deep_snapshots_of_one_chunk_let_others_run(tmp_path: Path) -> None:
    plan = plan_of(*(f"book_snapshot_10000_{name}" for name in ("0ms", "1ms", "1s")))
    write_slice(tmp_path, plan)
    settings = ArchiveSettings(cache_dir=tmp_path, offline=True)
    turns, turns_between = 0, []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with ArchiveSource(settings) as source:
        running = asyncio.create_task(others())
        context = SessionContext(source, system_clock)
        async with aclosing(client_records(plan, context)) as chunks:
            async for records in chunks:
                assert len(records) <= 4
                if records:
                    turns_between.append(turns)
                # As long as a slow machine computes, and as little as it lets others run.
                time.sleep(TURN_SECONDS / 10)  # noqa: ASYNC251
        running.cancel()
    # The chunks come from one piece of a slice, so that reading gives nobody a turn between them.
    assert len(turns_between) == CHANGES
    assert turns_between[-1] - turns_between[0] > 0
