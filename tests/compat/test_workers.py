"""Several processes behind the same ports."""

import asyncio
import os
import signal
from typing import Any

import psutil
import pytest

from tests.compat.conftest import FROM, TO, Client

RAW = {"exchange": "bitmex", "from": FROM, "to": TO}
NATIVE = {"exchange": "bitmex", "from": FROM, "to": TO}
SUBSCRIBE = {"op": "subscribe", "args": ["trade"]}


@pytest.fixture
def server_options() -> dict[str, Any]:
    return {"workers": 2}


def worker_pids() -> list[int]:
    children = psutil.Process().children()
    return [child.pid for child in children if "tardis_machine.app.worker" in child.cmdline()]


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
    async with asyncio.timeout(60):
        while len([pid for pid in worker_pids() if pid not in before]) != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    for _ in range(6):
        assert len(await client.lines("/replay", RAW)) == 6
