"""Clients that ask for a replay and then read nothing, and what that costs the others.

`python -m tests.soak.stalled [connections]` lets three crowds of them come to one server, and
prints the figures of each with the load of the machine, on which they depend, and the targets. The
memory before the first crowd is that of a server which has served one request of each kind and then
nothing for a minute: code and tables that the first request of a kind loads stay for good.
"""

import asyncio
import base64
import json
import os
import resource
import socket
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import aiohttp
import psutil

from tardis_machine.sources.simulator import SimulatorSettings, simulate
from tests.servers.ports import free_ports
from tests.soak.test_replay import answer, process
from tests.soak.tls_peer import TlsPeer
from tests.soak.wanted import Wanted, fetch

CONNECTIONS = 2000
TARGETS = (
    "targets: at least 500 served, the rest refused, 600 MB at most, within 10 % a minute after "
    "they left, p99 1 s on a machine with nothing else to do"
)
MINUTES = 3
HOLD_SECONDS = float(os.environ.get("TM_STALL_SECONDS", "20"))
LEAVE_SECONDS = float(os.environ.get("TM_LEAVE_SECONDS", "60"))
LEAVING_SECONDS = LEAVE_SECONDS / 6
"""How long the others go on when the crowd leaves; memory is compared at rest."""

OTHERS_SECONDS = 0.2
TIMEOUT_SECONDS = 300
OPTIONS = {
    "exchange": "bitmex",
    "from": "2024-03-01",
    "to": f"2024-03-01T00:{MINUTES:02d}",
    "dataTypes": ["trade", "book_change"],
}
SHORT = {**OPTIONS, "symbols": ["XBTUSD"], "dataTypes": ["trade"]}
_RANGE = {name: OPTIONS[name] for name in ("exchange", "from", "to")}
ONE_OF_EACH = (
    Wanted("/health-check", {}),
    Wanted("/metrics", {}),
    Wanted("/replay", _RANGE),
    Wanted("/replay-normalized", SHORT),
    Wanted("/replay-normalized", OPTIONS),
    Wanted("/ws-replay-normalized", OPTIONS),
    Wanted("/ws-replay", _RANGE, {"op": "subscribe", "args": ["trade"]}),
)


@dataclass
class Figures:
    """What was measured on one port."""

    port: str
    idle_mb: float = 0.0
    peak_mb: float = 0.0
    left_mb: float = 0.0
    load: tuple[float, float] = (0.0, 0.0)
    """Processes that wanted to run, in the last minute, before the crowd came and after it left."""

    server_cpu_seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    first_byte_seconds: list[float] = field(default_factory=list)
    refused_seconds: list[float] = field(default_factory=list)

    @property
    def served(self) -> int:
        """Return how many of the stalled clients were served."""
        return self.statuses["200"] + self.statuses["101"]

    @property
    def refused(self) -> int:
        """Return how many were asked to come again."""
        return self.statuses["503"]

    def p99_seconds(self) -> float:
        """Return the first byte of other clients, refusals included, that 99 % get sooner."""
        times = sorted(self.first_byte_seconds + self.refused_seconds)
        return times[int(len(times) * 0.99)] if times else float("inf")

    @property
    def growth_percent(self) -> float:
        """Return how much more memory there is than before the crowd."""
        return 100 * (self.left_mb / self.idle_mb - 1)

    def report(self) -> str:
        """Describe the figures in one line."""
        return (
            f"{self.port}: {self.served} served, {self.refused} refused, {dict(self.statuses)}; "
            f"memory {self.idle_mb:.0f} MB idle, {self.peak_mb:.0f} at most, {self.left_mb:.0f} "
            f"after they left ({self.growth_percent:+.0f} %); first byte of other clients p99 "
            f"{self.p99_seconds():.2f} s ({len(self.first_byte_seconds)} served, "
            f"{len(self.refused_seconds)} refused); {self.server_cpu_seconds:.0f} s CPU of the "
            f"server; load {self.load[0]:.1f} to {self.load[1]:.1f} on {os.cpu_count()} cores"
        )


def head(target: str, *, upgrade: bool) -> bytes:
    """Write the request of a client."""
    lines = [f"GET {target} HTTP/1.1", "Host: localhost"]
    if upgrade:
        key = base64.b64encode(os.urandom(16)).decode()
        lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        lines += [f"Sec-WebSocket-Key: {key}"]
    return "\r\n".join([*lines, "", ""]).encode()


async def ask(
    port: int, request: bytes, tls: ssl.SSLContext | None = None
) -> tuple[socket.socket, str]:
    """Send a request and wait for its status; the rest stays unread."""
    loop = asyncio.get_running_loop()
    peer = socket.socket()
    # Small, so that little fits between the two ends.
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.setblocking(False)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await loop.sock_connect(peer, ("127.0.0.1", port))
            if tls is None:
                await loop.sock_sendall(peer, request)
                status = await loop.sock_recv(peer, 12)
            else:
                status = await TlsPeer(peer, tls).ask(request, 12)
    except BaseException:
        # Also when it is cancelled, as the client is that asks to the end.
        peer.close()
        raise
    return peer, status[9:].decode()


async def stall(
    port: int,
    request: bytes,
    figures: Figures,
    peers: list[socket.socket],
    tls: ssl.SSLContext | None = None,
) -> None:
    """Be a client that reads its status and nothing more."""
    try:
        peer, status = await ask(port, request, tls)
    except (OSError, TimeoutError) as error:
        figures.statuses[type(error).__name__] += 1
        return
    figures.statuses[status] += 1
    peers.append(peer)


async def be_others(
    port: int, request: bytes, figures: Figures, tls: ssl.SSLContext | None = None
) -> None:
    """Ask for little, again and again, and note when the first byte came."""
    while True:
        started = time.monotonic()
        peer, status = await ask(port, request, tls)
        taken = time.monotonic() - started
        times = figures.refused_seconds if status == "503" else figures.first_byte_seconds
        times.append(taken)
        peer.close()
        await asyncio.sleep(OTHERS_SECONDS)


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6


def server_cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


async def watch(pid: int, figures: Figures) -> None:
    """Note the most memory that is ever used."""
    while True:
        figures.peak_mb = max(figures.peak_mb, memory_mb(pid))
        await asyncio.sleep(0.2)


async def be_used(port: int) -> None:
    """Let a server answer one request of each kind, and rest as long as after a crowd."""
    async with aiohttp.ClientSession() as session:
        for wanted in ONE_OF_EACH:
            await fetch(session, port, wanted)
    for target, upgrade in (("/replay", False), ("/ws-replay-normalized", True)):
        # A request that fails, and a client that leaves in the middle.
        for options in ({}, OPTIONS):
            request = head(f"{target}?options={quote(json.dumps(options))}", upgrade=upgrade)
            (await ask(port + upgrade, request))[0].close()
    await asyncio.sleep(LEAVE_SECONDS)


async def measure(
    pid: int,
    port: int,
    connections: int,
    *,
    upgrade: bool,
    tls: ssl.SSLContext | None = None,
) -> Figures:
    """Let clients stall on one port while others ask on the HTTP port."""
    path = "/ws-replay-normalized" if upgrade else "/replay-normalized"
    request = head(f"{path}?options={quote(json.dumps(OPTIONS))}", upgrade=upgrade)
    short = head(f"/replay-normalized?options={quote(json.dumps(SHORT))}", upgrade=False)
    figures, peers = Figures("WebSocket" if upgrade else "HTTP", memory_mb(pid)), []
    load, cpu_seconds = os.getloadavg()[0], server_cpu_seconds(pid)
    async with asyncio.TaskGroup() as tasks:
        watching = [
            tasks.create_task(watch(pid, figures)),
            tasks.create_task(be_others(port, short, figures, tls)),
        ]
        await asyncio.gather(
            *(stall(port + upgrade, request, figures, peers, tls) for _ in range(connections))
        )
        await asyncio.sleep(HOLD_SECONDS)
        for peer in peers:
            peer.close()
        await asyncio.sleep(LEAVING_SECONDS)
        for task in watching:
            task.cancel()
    await asyncio.sleep(LEAVE_SECONDS - LEAVING_SECONDS)
    figures.left_mb = memory_mb(pid)
    figures.load = load, os.getloadavg()[0]
    figures.server_cpu_seconds = server_cpu_seconds(pid) - cpu_seconds
    return figures


@asynccontextmanager
async def serving(
    folder: Path, *options: str, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, int]]:
    """Run a server over simulated data; yield its process id and its port."""
    simulate(
        SimulatorSettings(
            out=folder / "cache", minutes=MINUTES, seed=7, exchanges=("bitmex",), rate=200
        )
    )
    port = free_ports()
    command = [sys.executable, "-m", "tardis_machine", "--port", str(port), "--offline"]
    command += ["--cache-dir", str(folder / "cache"), *options]
    with process(command, folder / "server.log") as server:
        secure = "" if tls is None else "s"
        await answer(f"http{secure}://127.0.0.1:{port}/health-check", tls)
        yield server.pid, port


async def run(folder: Path, connections: int) -> list[Figures]:
    """Measure both ports of one server, and the first one again when it has seen a crowd."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    async with serving(folder) as (pid, port):
        await be_used(port)
        return [
            await measure(pid, port, connections, upgrade=upgrade)
            for upgrade in (False, True, False)
        ]


def main() -> None:
    """Print the figures."""
    connections = int(sys.argv[1]) if len(sys.argv) > 1 else CONNECTIONS
    with tempfile.TemporaryDirectory() as folder:
        for figures in asyncio.run(run(Path(folder), connections)):
            print(figures.report())  # noqa: T201
    print(TARGETS)  # noqa: T201


if __name__ == "__main__":
    main()
