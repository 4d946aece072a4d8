"""A lake that is killed again and again while events come in, and what must be left of it."""

import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from tardis_machine.buses.settings import BusSettings
from tardis_machine.lake.query.sql import Query
from tests.lake.live_producer import Producer, Sent
from tests.servers.process import spawn

ROOT = Path(__file__).resolve().parents[2]
MOST_FILES = 150
"""About what the first batch of all three queries writes."""
QUERIES = ("ingest-*", "refine", "serve")
LOOK_SECONDS = 0.01
LIFE_SECONDS = 600
END_SECONDS = 900


class Ended(NamedTuple):
    """How a job ended: its exit code, and all that it printed."""

    code: int
    printed: str


@dataclass(frozen=True)
class Trial:
    """What happened."""

    sent: Sent
    killed_in: list[tuple[str, ...]]
    """For each kill, the queries that had planned a batch and not committed it."""
    stopped: Ended | None
    """How the job ended that was told to."""


def run_trial(
    bus: BusSettings,
    flags: Sequence[str],
    folder: Path,
    *,
    kills: int,
    batch: int,
    seed: int | None = None,
    is_stopped: bool = False,
) -> Trial:
    """Kill a lake while a producer publishes, let it read the rest, and check its tables.

    Args:
        bus: Where to publish.
        flags: Name the same bus for the lake.
        folder: For the lake and everything else.
        kills: How often.
        batch: Trades that are published at once, ten times per second.
        seed: What the moments follow from; None: chance.
        is_stopped: Whether it is started and told to stop once more after the kills.
    """
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    choose, lake = random.Random(seed), folder / "lake"
    producer, driver, killed_in = Producer(bus, batch, seed), Driver(lake, flags, folder), []
    stopped = None
    try:
        with producer.running():
            for _ in range(kills):
                driver.start("--trigger-seconds", "0.2")
                driver.wait_for_files(choose.randint(1, MOST_FILES))
                driver.kill()
                killed_in.append(open_batches(lake))
            if is_stopped:
                driver.start("--trigger-seconds", "0")
                driver.wait_for_batches()
                stopped = driver.stop()
        driver.finish()
    finally:
        driver.kill()
    check_tables(lake, producer.sent)
    return Trial(producer.sent, killed_in, stopped)


class Driver:
    """`tardis-machine lake run` with everything below it: JVM and Python workers.

    Args:
        lake: Root of the tables.
        flags: Name the bus.
        folder: For what it writes besides tables.
    """

    def __init__(self, lake: Path, flags: Sequence[str], folder: Path) -> None:
        self._lake = lake
        self._log = folder / "lake.log"
        self._flags = [
            *("--lake", str(lake), "--profile", "quick", "--driver-memory", "1g"),
            *("--conf", f"spark.local.dir={folder / 'spark'}"),
            *flags,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._life_bytes = 0

    def start(self, *flags: str) -> None:
        """Start the job, for the first time or again."""
        command = [sys.executable, "-m", "tardis_machine", "lake", "run", *self._flags, *flags]
        self._life_bytes = self._log.stat().st_size if self._log.exists() else 0
        self._process = spawn(command, self._log, ROOT)

    def wait_for_files(self, count: int) -> None:
        """Return as soon as there are so many files more than now."""
        wanted = self._files() + count
        self._wait_until(lambda: self._files() >= wanted)

    def wait_for_batches(self) -> None:
        """Return as soon as every query has planned a batch after its first one of this life."""
        planned = {query: self._planned(query) for query in QUERIES}
        self._wait_until(
            lambda: all(self._planned(query) > planned[query] + 1 for query in QUERIES)
        )

    def _wait_until(self, is_true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIFE_SECONDS
        while not is_true():
            assert self._process is not None
            if self._process.poll() is not None:
                assert self._was_python_slow(), f"ended by itself\n{self._tail()}"
                self.start("--trigger-seconds", "0.2")
            assert time.monotonic() < deadline, f"wrote too little\n{self._tail()}"
            time.sleep(LOOK_SECONDS)

    def _planned(self, query: str) -> int:
        """Return the number of the last batch that a query has planned."""
        logs = self._lake.glob(f"_checkpoints/{query}/offsets")
        return max(map(_last, logs), default=-1)

    def stop(self) -> Ended:
        """Send what `kill` and service managers send, and wait for the end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(END_SECONDS)
        printed = self._log.read_bytes()[self._life_bytes :]
        return Ended(code, printed.decode(errors="replace"))

    def kill(self) -> None:
        """Kill every process of the job at once."""
        if self._process is not None and self._process.poll() is None:
            kill_tree(self._process)

    def finish(self) -> None:
        """Let the job read all there is and end."""
        self.start("--once")
        assert self._process is not None
        while self._process.wait(END_SECONDS) != 0:
            assert self._was_python_slow(), self._tail()
            self.start("--once")

    def _files(self) -> int:
        return sum(1 for _ in self._lake.rglob("*"))

    def _was_python_slow(self) -> bool:
        return "did not start within ten seconds" in self._tail().rstrip().rpartition("\n")[2]

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


def kill_tree(started: subprocess.Popen[bytes]) -> None:
    """Kill a process and all below it at once."""
    top = psutil.Process(started.pid)
    # Held still first: nobody may notice that another one is gone and tidy up.
    top.send_signal(signal.SIGSTOP)
    tree = [top, *top.children(recursive=True)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in tree:
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue
    psutil.wait_procs(tree[1:], timeout=END_SECONDS)
    started.wait()


def open_batches(lake: Path) -> tuple[str, ...]:
    """Return the queries that have planned a batch and not committed it."""
    queries = sorted((lake / "_checkpoints").glob("*"))
    return tuple(
        query.name for query in queries if _last(query / "offsets") > _last(query / "commits")
    )


def _last(log: Path) -> int:
    return max((int(path.name) for path in log.glob("[0-9]*")), default=-1)


def check_tables(lake: Path, sent: Sent) -> None:
    """Compare every layer with what the producer sent."""

    def answer(sql: str) -> list[list[str]]:
        lines = list(Query(str(lake), sql).lines("csv"))[1:]
        return [line.replace('"', "").split(",") for text in lines for line in text.splitlines()]

    bronze = "select count(*), count(distinct (stream, partition, position)) from bronze.events"
    assert answer(bronze) == [[str(sent.deliveries)] * 2]
    trades = answer("select id from silver.trades order by local_ts")
    assert [row[0] for row in trades] == sent.trades
    changes = answer("select epoch_us(local_ts) from silver.book_changes order by local_ts")
    assert [int(row[0]) for row in changes] == sent.changes
    assert answer("select count(*) from silver.quarantine") == [["0"]]
    gold = answer("select interval, sum(trades) from gold.bars group by interval order by interval")
    assert gold == [[name, str(len(sent.trades))] for name in ("1d", "1h", "1m", "1s", "5m")]
