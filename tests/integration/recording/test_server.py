"""`serve --record`: the server replays what it recorded, and kill -9 costs the open minute only."""

import asyncio
import json
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tardis_machine.bronze.envelope import parse_event
from tardis_machine.sources.slices import read_slice
from tests.integration.publishing.machine import Machine, published
from tests.integration.publishing.test_live import local_exchange, read_streams
from tests.integration.recording.sessions import minute_text, range_of

REQUEST = {"exchange": "bitmex", "symbols": ["XBTUSD"], "dataTypes": ["trade", "book_change"]}
FILTERS = [{"channel": "trade", "symbols": ["XBTUSD"]}]


def replayed(
    machine: Machine, path: str, start_us: int, end_us: int, **options: Any
) -> list[bytes]:
    """Return the lines of an HTTP replay."""
    asked = {**options, "from": minute_text(start_us), "to": minute_text(end_us)}
    query = urllib.parse.urlencode({"options": json.dumps(asked)})
    with urllib.request.urlopen(f"http://127.0.0.1:{machine.port}/{path}?{query}") as response:
        return response.read().splitlines()


def slices(directory: Path) -> dict[Path, bytes]:
    """Return what was recorded; a torn slice would raise."""
    found = sorted((directory / "feeds").rglob("*.zst"))
    return {path: b"".join(read_slice(path)) for path in found}


def test_recording_survives_kill_and_is_replayed_by_the_same_server(tmp_path: Path) -> None:
    directory = tmp_path / "recorded"
    with local_exchange() as exchange:
        flags = [
            *(f"--record={directory}", "--recorder-id=box-7"),
            f"--exchange-gateway={exchange.gateway}",
        ]
        with Machine(tmp_path / "cache", tmp_path, *flags) as machine:
            [live] = asyncio.run(read_streams(machine.port, [REQUEST], 60))
            assert machine.stop() == 0
        before = slices(directory)
        with Machine(tmp_path / "cache", tmp_path, *flags) as machine:
            asyncio.run(read_streams(machine.port, [REQUEST], 60))
            machine.kill()
    after = slices(directory)
    assert before
    assert {path: after[path] for path in [*before][:-1]} == dict([*before.items()][:-1])
    assert all(after[path].startswith(content) for path, content in before.items())
    bus = f"--files-dir={tmp_path / 'bus'}"
    with Machine(tmp_path / "cache", tmp_path, *flags, bus) as machine:
        assert not [*(directory / "open").iterdir()]
        span = range_of(directory)
        normalized = replayed(machine, "replay-normalized", *span, **REQUEST)
        raw = replayed(machine, "replay", *span, exchange="bitmex", filters=FILTERS)
        assert machine.stop() == 0
    live_ids = [json.loads(line)["id"] for line in live if '"trade"' in line]
    ids = [json.loads(line)["id"] for line in normalized if b'"trade"' in line]
    assert ids[: len(live_ids)] == live_ids
    assert {json.loads(line)["message"]["table"] for line in raw if line} == {"trade"}
    events = [parse_event(event.envelope) for event in published(tmp_path / "bus")]
    assert len(events) >= len(normalized) > 0
    assert {event.recorder for event in events} == {"box-7"}
