"""Half an hour of random requests, aborts and slow readers; nothing may grow, no byte may differ.

Two servers run at the same time, one process and two workers, over a data API that often fails.
`TM_SOAK_MINUTES` sets the duration.
"""

import asyncio
import os
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tardis_machine.sources.simulator import SimulatorSettings, simulate
from tests.servers.ports import free_ports
from tests.servers.process import spawn
from tests.soak.clients import Clients
from tests.soak.upstream import FilteringDataApi
from tests.soak.wanted import MINUTES, Expected, expected_bodies
from tests.soak.watch import Watch

ROOT = Path(__file__).resolve().parents[2]
SECONDS = float(os.environ.get("TM_SOAK_MINUTES", "30")) * 60
WARM_UP_SECONDS = min(60.0, SECONDS / 6)
SAMPLE_SECONDS = max(0.5, min(5.0, SECONDS / 100))
CLIENTS_PER_SERVER = 2
START_SECONDS = 60
SERVER_OPTIONS = (
    # Long enough for two clients to connect and subscribe on a busy machine.
    *("--subscribe-seconds", "3"),
    # A stalled download is given up soon, and failed ones are repeated soon.
    *("--idle-timeout-seconds", "2"),
    *("--retry-delay-max-seconds", "0.2"),
)


@dataclass(frozen=True)
class Server:
    """A running server and what clients did to it."""

    watch: Watch
    clients: list[Clients]


@contextmanager
def process(command: list[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command while the body runs; it must end when asked to."""
    started = spawn(command, log, ROOT)
    try:
        yield started
        assert started.poll() is None, log.read_text()[-2000:]
    finally:
        started.terminate()
        started.wait(30)


async def answer(url: str, tls: ssl.SSLContext | None = None) -> str:
    """Return what a server says, as soon as it says anything."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(START_SECONDS):
        while True:
            try:
                async with session.get(url, ssl=tls or True) as response:
                    return await response.text()
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)


async def start_server(
    stack: ExitStack, folder: Path, workers: int, upstream: int, expected: Expected
) -> Server:
    """Start one server with an empty cache of its own."""
    port, cache = free_ports(), folder / f"cache-{workers}"
    name = f"{workers} workers" if workers > 1 else "one process"
    command = [sys.executable, "-m", "tardis_machine", "serve", *SERVER_OPTIONS]
    command += ["--port", str(port), "--workers", str(workers)]
    command += ["--cache-dir", str(cache)]
    command += ["--endpoint", f"http://127.0.0.1:{upstream}/v1"]
    running = stack.enter_context(process(command, folder / f"server-{workers}.log"))
    await answer(f"http://127.0.0.1:{port}/health-check")
    seeds = range(workers * 100, workers * 100 + CLIENTS_PER_SERVER)
    clients = [Clients(port, cache, expected, seed) for seed in seeds]
    return Server(Watch(name, running.pid, port), clients)


async def load(server: Server, seconds: float) -> None:
    """Let every client act, and take samples meanwhile."""
    async with asyncio.TaskGroup() as tasks:
        sampling = tasks.create_task(server.watch.run(SAMPLE_SECONDS))
        async with asyncio.TaskGroup() as clients:
            for client in server.clients:
                clients.create_task(client.run(seconds))
        sampling.cancel()


async def soak(server: Server) -> tuple[list[str], str]:
    """Return what went wrong or has grown, and the figures."""
    await load(server, WARM_UP_SECONDS)
    idle_before = await server.watch.settled()
    server.watch.samples.clear()
    await load(server, SECONDS - WARM_UP_SECONDS)
    idle_after = await server.watch.settled()
    counts = sum((client.counts for client in server.clients), Counter())
    size = sum(client.bytes_checked for client in server.clients)
    values = await server.watch.metrics()
    retries = values.get("tardis_machine_archive_retries_total", 0)
    slices = values.get("tardis_machine_archive_slices_total", 0)
    figures = (
        f"{server.watch.report(idle_before, idle_after)}\n"
        f"  {counts.total():,} acts, {size / 1e6:,.0f} MB compared, {slices:,.0f} slices, "
        f"{retries:,.0f} downloads repeated\n  {dict(counts.most_common())}"
    )
    failures = [text for client in server.clients for text in client.failures]
    return failures + server.watch.problems(idle_before, idle_after), figures


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 900)
async def test_long_load_grows_nothing_and_changes_no_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated, upstream = tmp_path / "simulated", free_ports()
    simulate(SimulatorSettings(out=simulated, minutes=MINUTES, rate=20, with_gaps=True))
    async with FilteringDataApi(folder=simulated) as data_api:
        expected = await expected_bodies(data_api.endpoint, tmp_path / "cache")
    started = time.monotonic()
    with ExitStack() as stack:
        command = [sys.executable, "-m", "tests.soak.upstream", "--dir", str(simulated)]
        stack.enter_context(process([*command, "--port", str(upstream)], tmp_path / "upstream.log"))
        await answer(f"http://127.0.0.1:{upstream + 1}/counts")
        servers = [
            await start_server(stack, tmp_path, workers, upstream, expected) for workers in (1, 2)
        ]
        async with asyncio.TaskGroup() as tasks:
            soaks = [tasks.create_task(soak(server)) for server in servers]
        faults = await answer(f"http://127.0.0.1:{upstream + 1}/counts")
    with capsys.disabled():
        print(f"\nsoak of {(time.monotonic() - started) / 60:.1f} minutes; data API: {faults}")  # noqa: T201
        for each in soaks:
            print(each.result()[1])  # noqa: T201
    assert [problem for each in soaks for problem in each.result()[0]] == []
