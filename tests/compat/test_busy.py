"""More streams than a process serves, and clients that read nothing."""

import asyncio
import json
from typing import Any

import pytest

from tests.compat.conftest import Client
from tests.compat.recorded import FROM, TO, trade
from tests.compat.test_faults import start_request
from tests.servers.data_api import DataApiStub

RAW = {"exchange": "bitmex", "from": FROM, "to": TO}
NORMALIZED = {**RAW, "dataTypes": ["trade"]}


@pytest.fixture
def server_options() -> dict[str, Any]:
    return {"max_streams": 3}


@pytest.fixture
def large_feed(data_api: DataApiStub) -> None:
    """A minute of tens of megabytes, far above what sockets buffer."""
    data_api.slices = {("bitmex", "2024-03-01T00:00"): trade("00:01.000000", 1.0) * 200_000}


async def refusals(client: Client) -> str:
    text = (await client.get("/metrics"))[2]
    name = "tardis_machine_server_busy_refusals_total "
    (value,) = [line.removeprefix(name) for line in text.splitlines() if line.startswith(name)]
    return value


@pytest.mark.usefixtures("large_feed")
async def test_streams_beyond_the_budget_are_refused_until_others_leave(client: Client) -> None:
    stalled = [await start_request(client, "/replay", RAW) for _ in range(2)]
    options = json.dumps(NORMALIZED)
    url = f"{client.machine.ws_url}/ws-replay-normalized"
    async with client.session.ws_connect(url, params={"options": options}) as socket:
        await socket.receive()
        for base, path in (
            (client.machine.http_url, "/replay-normalized"),
            (client.machine.ws_url, "/ws-replay-normalized"),
        ):
            upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"} if "ws" in base else {}
            async with client.session.get(
                base.replace("ws://", "http://") + path,
                params={"options": options},
                headers=upgrade,
            ) as response:
                assert response.status == 503
                assert int(response.headers["Retry-After"]) > 0
                assert "--max-streams" in (await response.json())["message"]
        assert (await client.get("/health-check"))[0] == 200
        assert await refusals(client) == "2.0"
    for _, writer in stalled:
        writer.transport.abort()

    async def is_served() -> bool:
        return (await client.get("/replay", {**RAW, "to": FROM}))[0] == 200

    async with asyncio.timeout(240):
        while not await is_served():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_every_entry_takes_its_part_of_the_budget(client: Client) -> None:
    entries = [{**NORMALIZED, "symbols": [name]} for name in ("A", "B", "C", "D")]
    assert (await client.get("/replay-normalized", entries[:3]))[0] == 200
    assert (await client.get("/replay-normalized", entries))[0] == 503
    received = await client.websocket("/ws-replay-normalized", options=entries)
    assert received.code == 1013
    assert received.reason.startswith("The server is busy")
    # Nothing of the refused ones is still counted.
    assert (await client.get("/replay-normalized", entries[:3]))[0] == 200


SYMBOLS = [f"S{number}" for number in range(350)]
"""As much as four streams."""


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("/replay", {**RAW, "filters": [{"channel": "trade", "symbols": SYMBOLS}]}),
        ("/replay-normalized", {**NORMALIZED, "symbols": SYMBOLS}),
        ("/replay-normalized", {**NORMALIZED, "symbols": ["x" * 250_000]}),
    ],
)
async def test_large_request_takes_several_parts_of_the_budget(
    client: Client, path: str, options: dict[str, Any]
) -> None:
    assert (await client.get(path, options))[0] == 503
    url = client.machine.http_url + path
    async with client.session.post(url, data=json.dumps(options)) as response:
        assert response.status == 503
    assert (await client.get(path, {**options, "to": FROM, "symbols": ["A"], "filters": []}))[
        0
    ] == 200


async def test_large_websocket_requests_take_several_parts_of_the_budget(client: Client) -> None:
    subscribe = {"op": "subscribe", "args": [f"trade:{name}" for name in SYMBOLS]}
    live = {"exchange": "bitmex", "symbols": SYMBOLS, "dataTypes": ["trade"]}
    for received in (
        await client.websocket("/ws-replay-normalized", options={**NORMALIZED, "symbols": SYMBOLS}),
        await client.websocket("/ws-replay", subscribe, **RAW),
        await client.websocket("/ws-stream-normalized", options=live),
        await client.websocket("/ws-stream-normalized", options=[{**live, "symbols": ["A"]}] * 4),
    ):
        assert received.code == 1013
        assert received.reason.startswith("The server is busy")
