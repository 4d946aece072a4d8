"""Wrong inputs on both ports: requests are answered as documented, no traceback, no growth.

All clients have left at the end, and no replay may outlive its client.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tardis_machine.sources.simulator import SimulatorSettings, simulate
from tests.compat.conftest import active_streams
from tests.compat.fuzzing import Input, Inputs, inputs_wanted, is_documented
from tests.servers.ports import free_ports
from tests.soak.test_replay import answer, process

SEED = 20_240_301
AT_ONCE = 8
ANSWER_SECONDS = 120
READ_SECONDS = 0.1
MAX_LOG_LINE = 20_000


async def send(port: int, given: Input) -> bytes:
    """Send an input, close this side unless it is a WebSocket, and take the start of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port + given.port_offset)
    got = b""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            writer.write(given.data)
            if b"Upgrade: websocket" not in given.data:
                writer.write_eof()
            while b"\r\n\r\n" not in got and (more := await reader.read(65_536)):
                got += more
        # Some replays are slow, because they were asked to be.
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                got += await reader.read(65_536)
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return got


async def attack(port: int, inputs: Inputs, count: int) -> list[str]:
    """Send inputs, several at a time; return what was wrong with the answers."""
    wrong: list[str] = []
    left = iter(range(count))

    async def one_after_another() -> None:
        for _ in left:
            given = inputs.next()
            try:
                got = await send(port, given)
            except TimeoutError:
                wrong.append(f"no answer in time: {given}")
                continue
            if (got or given.is_request) and not is_documented(got):
                wrong.append(f"{got[:200]!r} to {given}")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(one_after_another())
    return wrong


async def all_ended(port: int) -> None:
    """Wait until the server has noticed that every client has left."""
    async with asyncio.timeout(ANSWER_SECONDS):
        while active_streams(await answer(f"http://127.0.0.1:{port}/metrics")):  # noqa: ASYNC110
            await asyncio.sleep(0.5)


async def memory_at_rest_mb(pid: int, seconds: float) -> float:
    """Return the memory of a process that has had time to tidy up."""
    await asyncio.sleep(seconds)
    return float(psutil.Process(pid).memory_info().rss) / 1e6


async def fuzz(folder: Path, count: int, *, rest_seconds: float, max_growth_mb: float) -> None:
    """Send inputs to a server of its own; the first fifth of them warms it up."""
    simulate(
        SimulatorSettings(out=folder / "cache", minutes=1, seed=7, exchanges=("bitmex",), rate=5)
    )
    port = free_ports()
    command = [sys.executable, "-m", "tardis_machine", "--port", str(port), "--offline"]
    command += ["--cache-dir", str(folder / "cache"), "--subscribe-seconds", "0.05"]
    log = folder / "server.log"
    with process(command, log) as server:
        await answer(f"http://127.0.0.1:{port}/health-check")
        inputs = Inputs(SEED)
        wrong = await attack(port, inputs, count // 5)
        warm_mb = await memory_at_rest_mb(server.pid, rest_seconds)
        wrong += await attack(port, inputs, count - count // 5)
        await all_ended(port)
        grown_mb = await memory_at_rest_mb(server.pid, rest_seconds) - warm_mb
        health = await answer(f"http://127.0.0.1:{port}/health-check")
    assert wrong[:3] == []
    assert "Healthy" in health
    text = log.read_text()
    assert "Traceback" not in text, text[text.index("Traceback") - 300 :][:3000]
    assert max(map(len, text.splitlines()), default=0) < MAX_LOG_LINE
    assert grown_mb < max_growth_mb


def test_hundreds_of_wrong_inputs_do_no_harm(tmp_path: Path) -> None:
    asyncio.run(fuzz(tmp_path, 500, rest_seconds=0, max_growth_mb=60))


@pytest.mark.soak
@pytest.mark.timeout(5400)
def test_thousands_of_wrong_inputs_do_no_harm(tmp_path: Path) -> None:
    asyncio.run(fuzz(tmp_path, inputs_wanted(20_000), rest_seconds=25, max_growth_mb=12))
