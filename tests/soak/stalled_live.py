"""Clients of live streams that each ask for other snapshots and read nothing.

`python -m tests.soak.stalled_live [clients]` prints the memory of a server over time, and what the
others notice. Every client wants another depth, so that nothing of what waits for them is shared.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import quote

import aiohttp

from tests.soak.stalled import (
    SHORT,
    Figures,
    be_others,
    head,
    memory_mb,
    server_cpu_seconds,
    serving,
    stall,
    watch,
)

CLIENTS = 200
SECONDS = float(os.environ.get("TM_STALL_SECONDS", "30"))
PATIENCE_SECONDS = 600.0
"""How long a busy machine may take until clients are disconnected; without a bound none are."""

ENOUGH_MB = 1200
LEAVE_SECONDS = 12.0
SAMPLE_SECONDS = 3.0
FIRST_DEPTH = 200
"""Of the snapshots: a side of the simulated book has some 200 levels."""

RATE, SPEED = 500, 4
"""Messages of the exchange: as many as a server that is busy with books can take."""


@contextmanager
def exchange() -> Iterator[str]:
    """Play the exchanges on this machine; give the address of their gateway."""
    words = [sys.executable, "-m", "tardis_machine", "simulate", "--serve", "0", "--seed", "7"]
    words += ["--rate", str(RATE), "--speed", str(SPEED)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        gateway = next(line for line in process.stdout if line.startswith("Exchange gateway: "))
        try:
            yield gateway.removeprefix("Exchange gateway: ").strip()
        finally:
            process.kill()


def request_of(number: int) -> bytes:
    """Write the request of one client."""
    options = {
        "exchange": "binance-futures",
        "symbols": ["btcusdt", "ethusdt"],
        "dataTypes": [f"book_snapshot_{FIRST_DEPTH + number}_0ms"],
    }
    target = f"/ws-stream-normalized?options={quote(json.dumps([options]))}"
    return head(target, upgrade=True)


async def dropped(port: int) -> float:
    """Return how many clients were disconnected because they read nothing."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        lines = (await response.text()).splitlines()
    prefix = "tardis_machine_server_slow_clients_total{"
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefix))


async def measure(pid: int, port: int, clients: int) -> tuple[Figures, list[float], float]:
    """Let clients stall; return figures, the memory over time, and how many were dropped."""
    figures, peers = Figures("live", memory_mb(pid)), list[socket.socket]()
    short = head(f"/replay-normalized?options={quote(json.dumps(SHORT))}", upgrade=False)
    load, cpu_seconds, course = os.getloadavg()[0], server_cpu_seconds(pid), []
    async with asyncio.TaskGroup() as tasks:
        watching = [
            tasks.create_task(watch(pid, figures)),
            tasks.create_task(be_others(port, short, figures)),
        ]
        coming = [
            tasks.create_task(stall(port + 1, request_of(number), figures, peers))
            for number in range(clients)
        ]
        await asyncio.gather(*coming)
        started, lost = time.monotonic(), 0.0
        while time.monotonic() < started + (SECONDS if lost else PATIENCE_SECONDS):
            await asyncio.sleep(SAMPLE_SECONDS)
            course.append(memory_mb(pid))
            lost = await dropped(port)
            if course[-1] > ENOUGH_MB:
                break
        for peer in peers:
            peer.close()
        await asyncio.sleep(LEAVE_SECONDS)
        for task in watching:
            task.cancel()
    figures.left_mb = memory_mb(pid)
    figures.load = load, os.getloadavg()[0]
    figures.server_cpu_seconds = server_cpu_seconds(pid) - cpu_seconds
    return figures, course, lost


@asynccontextmanager
async def live_server(folder: Path, *options: str) -> AsyncIterator[tuple[int, int]]:
    """Run a server that streams from exchanges on this machine."""
    with exchange() as gateway:
        async with serving(folder, "--exchange-gateway", gateway, *options) as served:
            yield served


async def run(
    folder: Path, clients: int = CLIENTS, *options: str
) -> tuple[Figures, list[float], float]:
    """Measure one crowd on a server with these settings."""
    async with live_server(folder, *options) as (pid, port):
        return await measure(pid, port, clients)


def main() -> None:
    """Print the figures."""
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else CLIENTS
    with tempfile.TemporaryDirectory() as folder:
        figures, course, lost = asyncio.run(run(Path(folder), clients, *sys.argv[2:]))
    print(figures.report())  # noqa: T201
    print("memory over time, MB:", " ".join(f"{each:.0f}" for each in course))  # noqa: T201
    print(f"disconnected because they read nothing: {lost:.0f}")  # noqa: T201


if __name__ == "__main__":
    main()
