"""Several processes behind the same ports."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.compat.conftest import Client
from tests.compat.recorded import FROM, TO
from tests.servers.data_api import DataApiStub, Fault
from tests.servers.ports import free_ports

RAW = {"exchange": "bitmex", "from": FROM, "to": TO}
NATIVE = {"exchange": "bitmex", "from": FROM, "to": TO}
SUBSCRIBE = {"op": "subscribe", "args": ["trade"]}


@pytest.fixture
def server_options() -> dict[str, Any]:
    return {"workers": 2}


def worker_pids() -> list[int]:
    return [child.pid for child in psutil.Process().children() if is_worker(child)]


def is_worker(process: psutil.Process) -> bool:
    try:
        return "tardis_machine.app.worker" in process.cmdline()
    except psutil.Error:
        # It has just died, and nobody took notice yet.
        return False


async def test_requests_are_shared_by_processes(client: Client) -> None:
    assert len(worker_pids()) == 2
    bodies = await asyncio.gather(*(client.lines("/replay", RAW) for _ in range(8)))
    assert all(body == bodies[0] for body in bodies)
    assert len(bodies[0]) == 6


async def test_session_members_meet_in_one_process(client: Client) -> None:
    for number in range(4):
        received = await asyncio.gather(
            *(
                client.websocket("/ws-replay", SUBSCRIBE, session=f"s{number}", **NATIVE)
                for _ in range(3)
            )
        )
        assert [each.code for each in received] == [1000] * 3


async def test_one_silent_member_still_fails_the_session(client: Client) -> None:
    first, second = await asyncio.gather(
        client.websocket("/ws-replay", SUBSCRIBE, session="s", **NATIVE),
        client.websocket("/ws-replay", session="s", **NATIVE),
    )
    assert first.code == second.code == 1011


async def test_dead_worker_is_replaced(client: Client) -> None:
    before = worker_pids()
    os.kill(before[0], signal.SIGKILL)
    async with asyncio.timeout(240):
        while len([pid for pid in worker_pids() if pid not in before]) != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    for _ in range(6):
        assert len(await client.lines("/replay", RAW)) == 6


def process_metric(text: str, name: str) -> float:
    return float(next(line for line in text.splitlines() if line.startswith(name)).split()[-1])


async def test_metrics_answer_for_every_worker(client: Client) -> None:
    sent = 'tardis_machine_server_messages_total{exchange="bitmex",route="/replay"}'
    _, _, text = await client.get("/metrics")
    assert process_metric(text, "tardis_machine_process_workers") == 2
    # Kept open, so that the next connection goes to the other worker.
    async with client.session.get(client.machine.http_url + "/health-check"):
        for _ in range(4):
            await client.lines("/replay", RAW)
    read = 'tardis_machine_replay_messages_total{exchange="bitmex"}'
    for name in (sent, read):
        async with asyncio.timeout(240):
            while process_metric((await client.get("/metrics"))[2], name) != 24:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_counts_survive_the_worker_that_made_them(client: Client) -> None:
    sent = 'tardis_machine_server_messages_total{exchange="bitmex",route="/replay"}'
    for _ in range(4):
        await client.lines("/replay", RAW)
    seen = [process_metric((await client.get("/metrics"))[2], sent)]
    before = worker_pids()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(240):
        while len(worker_pids()) < 2 or set(worker_pids()) & set(before):
            await asyncio.sleep(0.05)
            seen.append(process_metric((await client.get("/metrics"))[2], sent))
    assert seen == sorted(seen)
    _, _, text = await client.get("/metrics")
    assert process_metric(text, "tardis_machine_process_worker_deaths_total") == 2


async def test_more_connections_than_a_worker_can_have_queued_are_all_served(
    client: Client,
) -> None:
    settings = client.machine.settings.server

    async def fetch() -> int:
        reader, writer = await asyncio.open_connection(settings.host, settings.port)
        writer.write(b"GET /health-check HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        body = await reader.read()
        writer.close()
        return body.count(b"Healthy")

    for pid in worker_pids():
        os.kill(pid, signal.SIGSTOP)
    waiting = [asyncio.create_task(fetch()) for _ in range(800)]
    await asyncio.sleep(0.5)
    for pid in worker_pids():
        os.kill(pid, signal.SIGCONT)
    async with asyncio.timeout(240):
        assert sum(await asyncio.gather(*waiting)) == 800


class TestRequestLimit:
    """Workers that share a limit on requests to the data API."""

    @pytest.fixture
    def server_options(self) -> dict[str, Any]:
        return {"workers": 2, "max_concurrent_requests": 2}

    async def test_limit_holds_for_all_workers_together(
        self, client: Client, data_api: DataApiStub
    ) -> None:
        data_api.faults = [Fault(times=None, delay_seconds=0.1)]
        filters = [{"channel": "trade", "symbols": [f"S{number}"]} for number in range(6)]
        await asyncio.gather(
            *(client.lines("/replay", {**RAW, "filters": [each]}) for each in filters)
        )
        assert data_api.max_in_flight == 2


@contextmanager
def started_server(tmp_path: Path, *, open_files: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a server of its own, which may open this many files unless it asks for more."""
    words = [sys.executable, "-m", "tardis_machine", "serve", "--workers", "2", "--offline"]
    words += ["--port", str(free_ports()), "--cache-dir", str(tmp_path)]
    command = f"ulimit -Sn {open_files}; exec {shlex.join(words)}"
    # What a killed parent could not remove lies in this test's folder.
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", command], env=environ, stdout=pipe, stderr=pipe) as parent:
        assert parent.stdout is not None
        assert any(line.startswith(b"WS port") for line in parent.stdout)
        try:
            yield parent
        finally:
            parent.kill()


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    with started_server(tmp_path, open_files=256) as parent:
        workers = psutil.Process(parent.pid).children()
        parent.kill()
        assert len(workers) == 2
        assert psutil.wait_procs(workers, timeout=240)[1] == []
        assert parent.stderr is not None
        assert parent.stderr.read() == b""


def test_workers_may_open_as_many_files_as_the_system_grants(tmp_path: Path) -> None:
    with started_server(tmp_path, open_files=256) as parent:
        for worker in psutil.Process(parent.pid).children():
            soft, hard = worker.rlimit(psutil.RLIMIT_NOFILE)
            assert soft == min(hard, 65_536) > 256
