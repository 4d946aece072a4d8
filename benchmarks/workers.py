"""Several clients over several workers, and memory over long ranges.

Two clients of a server with two workers should take little longer than one. Wall time says so only
where two cores are free; the CPU time of the busier worker, as a multiple of what one client costs,
says it anywhere. Memory is the peak of the largest process.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchmarks.processes import free_ports, running, wait_until_healthy
from benchmarks.replay import OURS, ROOT, SCENARIOS, Feed, Scenario, replay, words_of, write_feed

EXCHANGE = "bitmex"
MAX_RSS_MB = 300
MAX_RATIO = 1.3
ROUNDS = 3
RAW = SCENARIOS[0]
SNAPSHOTS = next(each for each in SCENARIOS if each.name.endswith("book_snapshot_50_0ms"))


@dataclass(frozen=True)
class Run:
    """One run of some clients, all at once."""

    wall_seconds: float
    worker_cpu_seconds: tuple[float, ...]
    peak_rss_mb: float


@contextmanager
def data_api(folder: Path) -> Iterator[str]:
    """Serve slices while the body runs, at the address it gets."""
    command = [sys.executable, "-m", "tests.servers.data_api", "--dir", str(folder), "--port", "0"]
    with running(command, ROOT) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().decode().split()[-1]}/v1"


@contextmanager
def server(endpoint: str, workers: int) -> Iterator[tuple[int, psutil.Process]]:
    """Run a server with an empty cache while the body runs."""
    port = free_ports()
    with tempfile.TemporaryDirectory() as cache:
        command = f"{OURS} --workers {workers}"
        words = words_of(command, port=str(port), endpoint=endpoint, cache=cache)
        with running(words, ROOT) as process:
            wait_until_healthy(port)
            yield port, psutil.Process(process.pid)


def serving(process: psutil.Process) -> list[psutil.Process]:
    """Return the processes that serve requests."""
    return process.children() or [process]


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def peak_rss_mb(process: psutil.Process) -> float:
    """Return the largest resident size that a process ever had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1000


async def clients(port: int, scenario: Scenario, feed: Feed, count: int) -> None:
    """Run some clients at once, each to its end."""
    await asyncio.gather(*(replay(port, scenario, feed) for _ in range(count)))


def measure(port: int, process: psutil.Process, scenario: Scenario, feed: Feed, count: int) -> Run:
    """Run some clients and say what they cost."""
    workers = serving(process)
    before = [cpu_seconds(worker) for worker in workers]
    started = time.monotonic()
    asyncio.run(clients(port, scenario, feed, count))
    wall = time.monotonic() - started
    spent = [cpu_seconds(worker) - cpu for worker, cpu in zip(workers, before, strict=True)]
    return Run(wall, tuple(spent), max(map(peak_rss_mb, workers)))


def busiest(run: Run) -> float:
    """Return the CPU seconds of the worker that had most to do."""
    return max(run.worker_cpu_seconds)


def report_concurrency(endpoint: str, feed: Feed) -> None:
    """Print what a second client costs in time, with one process and with two workers."""
    print(f"two clients at once, {feed.messages:,} messages each, {SNAPSHOTS.name}:")
    for workers in (1, 2):
        with server(endpoint, workers) as (port, process):
            # The first run fills the cache, so that all others do the same work.
            measure(port, process, SNAPSHOTS, feed, 1)
            runs = {
                count: [measure(port, process, SNAPSHOTS, feed, count) for _ in range(ROUNDS)]
                for count in (1, 2)
            }
        wall = min(run.wall_seconds for run in runs[2]) / min(run.wall_seconds for run in runs[1])
        cpu = min(busiest(run) for run in runs[2]) / min(busiest(run) for run in runs[1])
        print(
            f"  {workers} worker(s): wall {wall:.2f} × one client, "
            f"CPU of the busier worker {cpu:.2f} × (target for 2: {MAX_RATIO})",
            flush=True,
        )


def report_memory(endpoint: str, feed: Feed) -> None:
    """Print the peak of a worker while it replays an hour."""
    for scenario in SCENARIOS:
        with server(endpoint, 2) as (port, process):
            run = measure(port, process, scenario, feed, 1)
        print(
            f"  {feed.minutes} minutes, {feed.messages:,} messages, {scenario.name}: "
            f"peak {run.peak_rss_mb:.0f} MB (target {MAX_RSS_MB})",
            flush=True,
        )


def report_growth(endpoint: str, feed: Feed, hours: tuple[int, ...]) -> None:
    """Print the peak of a worker over ranges of several lengths, with messages equally dense."""
    for scenario in (RAW, SNAPSHOTS):
        peaks = []
        for count in hours:
            with server(endpoint, 2) as (port, process):
                part = replace(feed, minutes=count * 60)
                peaks.append(measure(port, process, scenario, part, 1).peak_rss_mb)
        shown = ", ".join(
            f"{count} h {peak:.0f} MB" for count, peak in zip(hours, peaks, strict=True)
        )
        print(f"  {scenario.name}: {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=200, help="messages per second and symbol")
    parser.add_argument("--sparse-rate", type=int, default=20, help="the same over six hours")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        feed = write_feed(Path(folder), EXCHANGE, 60, arguments.rate)
        with data_api(Path(folder)) as endpoint:
            report_concurrency(endpoint, replace(feed, minutes=10, messages=feed.messages // 6))
            print("memory of a worker while it replays an hour:")
            report_memory(endpoint, feed)
    with tempfile.TemporaryDirectory() as folder:
        feed = write_feed(Path(folder), EXCHANGE, 360, arguments.sparse_rate)
        with data_api(Path(folder)) as endpoint:
            print(f"memory of a worker by length of the range, {feed.messages:,} messages in 6 h:")
            report_growth(endpoint, feed, (1, 6))


if __name__ == "__main__":
    main()
