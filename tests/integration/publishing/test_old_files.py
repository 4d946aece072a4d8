"""Files that an earlier version left on disk: spools, jobs and buses go on where it ended."""

import asyncio
import io
import json
import shutil
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest
import zstandard

from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.files.reader import FilesBus
from tardis_machine.sinks.publisher.old_spools import INSTANCE
from tardis_machine.sinks.storage.directory import find_logs
from tests.integration.publishing.machine import (
    COMMAND,
    QUICK,
    SECONDS,
    published,
    run_command,
    wait_until,
)
from tests.servers.readers import read_redis
from tests.servers.redis import Redis

ARCHIVE = Path(__file__).parents[2] / "fixtures" / "version_0" / "event_bus.tar.zst"
EVENTS = 357
REPLAY = [
    *("--exchange", "bitmex", "--symbols", "XBTUSD", "--data-types", "trade,book_change"),
    *("--from", "2024-03-01T00:00", "--to", "2024-03-01T00:06", "--offline", "--job", "march"),
]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Give a fresh copy of the files."""
    content = zstandard.ZstdDecompressor().stream_reader(ARCHIVE.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def ids_on(bus: Path) -> list[str]:
    return [event.event_id for event in published(bus)]


def publish(old: Path, spool: Path, *bus: str) -> str:
    """Continue the job and return what it says."""
    places = ("--cache-dir", str(old / "cache"), "--event-bus-spool-dir", str(spool))
    done = run_command("publish", *REPLAY, *places, *QUICK, *bus)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.broker
def test_spool_is_drained_completely_and_in_order(old: Path) -> None:
    with Redis() as server:
        address = ("--redis-host", "127.0.0.1", "--redis-port", str(server.port))
        said = publish(old, old / "event-bus", *address, "--redis-stream", "bronze")
        entries = asyncio.run(read_redis(server.address, "bronze"))
    assert f"redis: {EVENTS} events delivered" in said
    assert "left on disk" not in said
    assert [entry.headers["eventId"] for entry in entries] == ids_on(old / "bus")
    assert not (old / "event-bus" / "redis").exists()


def test_spool_below_the_cache_is_moved_to_the_new_place(
    old: Path, monkeypatch: pytest.MonkeyPatch, closed_port: int
) -> None:
    shutil.move(old / "event-bus", old / "cache" / "event-bus")
    monkeypatch.setenv("XDG_STATE_HOME", str(old / "state"))
    address = f"--redis-url=redis://127.0.0.1:{closed_port}"
    flags = ("--cache-dir", str(old / "cache"), "--event-bus-drain-timeout-ms", "100")
    words = ["publish", *REPLAY, *flags, *QUICK, address, "--redis-stream=bronze"]
    with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True) as process:
        # A job waits for its bus until somebody stops it.
        moved = old / "cache" / "event-bus" / "redis"
        wait_until(lambda: not moved.exists(), "the spool is moved")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=SECONDS)
    assert f"{EVENTS} left on disk" in said
    logs = find_logs(old / "state" / "tardis-machine" / "event-bus")
    assert INSTANCE in [log.owner.instance for log in logs]


def test_killed_job_goes_on_after_its_last_settled_minute(old: Path) -> None:
    before = ids_on(old / "job" / "bus")
    publish(old, old / "job" / "event-bus", "--files-dir", str(old / "job" / "bus"))
    after, whole = ids_on(old / "job" / "bus"), ids_on(old / "bus")
    assert after[: len(before)] == before
    assert list(dict.fromkeys(after)) == whole
    # Four minutes were settled, of about sixty events each.
    assert len(after) - len(before) < EVENTS / 2
    state = json.loads((old / "job" / "event-bus" / "jobs" / "march.json").read_bytes())
    assert state["progress"][0]["is_done"]


def test_finished_job_is_not_published_again(old: Path) -> None:
    said = publish(old, old / "event-bus", "--files-dir", str(old / "bus"))
    assert "files: 0 events delivered" in said
    assert len(ids_on(old / "bus")) == EVENTS


def test_files_bus_is_read_into_the_lake(old: Path) -> None:
    bus = FilesBus(FilesSettings(dir=old / "bus"))
    policy = ReadPolicy()
    with bus.planner(policy) as planner, bus.connect() as client:
        start = planner.begin()
        ranges = planner.ranges(start, planner.latest(start, None))
        pages = [page.batch for wanted in ranges for page in client.read(wanted)]
    envelopes = [each for page in pages for each in page.column("envelope").to_pylist()]
    assert envelopes == [event.envelope for event in published(old / "bus")]
    assert len(envelopes) == EVENTS
