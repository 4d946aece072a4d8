"""A job on one small disk, while everything around it comes and goes at random.

The disk, which has its log, checkpoint and temporary files, is filled and emptied; the bus goes
away and comes back; the publisher is killed or stopped for a while, the job killed or ended, and
started again. `TM_SOAK_MINUTES` says for how long, `TM_SOAK_SEED` repeats a run.
"""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from tests.integration.publishing.machine import COMMAND, Published, published
from tests.integration.publishing.test_adversity import outage
from tests.small_disk import fill, small_disk
from tests.soak.publishing_load import make_seed, record_minutes

SECONDS = float(os.environ.get("TM_SOAK_MINUTES", "2")) * 60
MINUTES = 45
DISK_MIB = 8
END_SECONDS = 600
FINISHED, INTERRUPTED_OR_NO_ROOM = 0, 1

pytestmark = [pytest.mark.soak, pytest.mark.timeout(SECONDS + 3 * END_SECONDS)]


class Chaos:
    """What can happen to a job that publishes to files."""

    def __init__(self, cache: Path, folder: Path, disk: Path) -> None:
        self.bus = folder / "bus"
        self.log = folder / "log"
        self.exit_codes: Counter[int] = Counter()
        self._disk = disk
        self._flags = [
            *("publish", "--cache-dir", str(cache), "--offline", "--exchange", "bitmex"),
            *("--data-types", "trade,book_change,book_snapshot_5_1s", "--log-format", "json"),
            *("--from", "2024-03-01", "--to", f"2024-03-01T00:{MINUTES}", "--job", "chaos"),
            *("--event-bus-spool-dir", str(disk / "spool"), "--event-bus-retry-max-ms", "200"),
        ]
        self._outage = ExitStack()
        self._is_out = False
        self.job = self._start()

    @property
    def faults(self) -> list[Callable[[], object]]:
        return [
            *(self.begin_outage, self.end_outage, self.end_outage),
            *(self.fill, self.empty, self.empty),
            *(self.kill_publisher, self.pause_publisher, self.kill, self.end),
        ]

    def begin_outage(self) -> None:
        if not self._is_out:
            self._outage.enter_context(outage(self.bus))
            self._is_out = True

    def end_outage(self) -> None:
        self._outage.close()
        self._is_out = False

    def fill(self) -> None:
        fill(self._disk)

    def empty(self) -> None:
        (self._disk / "filling").unlink(missing_ok=True)

    def kill_publisher(self) -> None:
        for publisher in self._publishers():
            publisher.kill()

    def pause_publisher(self) -> None:
        with suppress(psutil.NoSuchProcess):
            for publisher in self._publishers():
                publisher.suspend()
                time.sleep(1)
                publisher.resume()

    def kill(self) -> None:
        """Kill the job and everything it started, as the death of the machine does."""
        if self.job.poll() is None:
            os.killpg(self.job.pid, signal.SIGKILL)

    def end(self) -> None:
        self.job.terminate()

    def keep_running(self) -> None:
        if self.job.poll() is not None:
            self.exit_codes[self.job.returncode] += 1
            self.job = self._start()

    def finish(self) -> None:
        """Let the job end, and what it left on disk be sent."""
        self.end_outage()
        self.empty()
        while (code := self.job.wait(END_SECONDS)) != FINISHED:
            self.exit_codes[code] += 1
            self.job = self._start()
        # Once more: what was killed left logs that the last one may not have seen.
        assert self._start().wait(END_SECONDS) == FINISHED

    def publish_once(self, bus: Path) -> list[Published]:
        """Return what the job publishes when nothing happens."""
        flags = [flag for flag in self._flags if flag not in ("--job", "chaos")]
        subprocess.run([*COMMAND, *flags, "--files-dir", str(bus)], check=True, capture_output=True)
        return published(bus)

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*COMMAND, *self._flags, "--files-dir", str(self.bus)],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=os.environ | {"TMPDIR": str(self._disk)},
                start_new_session=True,
            )

    def _publishers(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.job.pid).children()
        return []


def by_key(events: list[Published]) -> dict[str, list[str]]:
    """Return the first arrivals of each key."""
    keys: dict[str, dict[str, None]] = {}
    for event in events:
        keys.setdefault(event.key, {}).setdefault(event.event_id)
    return {key: list(ids) for key, ids in keys.items()}


def test_job_on_a_small_disk_loses_nothing_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache, seed = tmp_path / "cache", make_seed()
    record_minutes(cache, MINUTES)
    chance = random.Random(seed)
    with small_disk(DISK_MIB) as disk:
        chaos = Chaos(cache, tmp_path, disk)
        ends_at = time.monotonic() + SECONDS
        done: Counter[str] = Counter()
        while time.monotonic() < ends_at:
            time.sleep(chance.uniform(0.05, 0.9))
            fault = chance.choice(chaos.faults)
            done[fault.__name__] += 1  # type: ignore[attr-defined]
            fault()
            chaos.keep_running()
        chaos.finish()
        left = [path for path in disk.rglob("*") if path.is_file() and "jobs" not in path.parts]
        received = published(chaos.bus)
    wanted = chaos.publish_once(tmp_path / "wanted")
    with capsys.disabled():
        print(f"\n{len(wanted):,} events, {len(received):,} received, {dict(done)}, seed {seed}")  # noqa: T201
    assert by_key(received) == by_key(wanted)
    assert left == []
    assert b"Traceback" not in chaos.log.read_bytes()
    # An end by signal is one of -15, -9 or 1; nothing was lost (4), nothing failed (70).
    assert chaos.exit_codes.keys() <= {FINISHED, INTERRUPTED_OR_NO_ROOM, -9, -15}
