"""A server, the data API it reads from, and a client for both of its ports."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tardis_machine.app.machine import TardisMachine
from tests.compat.recorded import BITMEX
from tests.servers.data_api import DataApiStub
from tests.servers.ports import free_ports


@dataclass
class Received:
    """What one WebSocket connection got."""

    messages: list[str]
    code: int | None
    reason: str


class Client:
    """Asks the server the way its users do."""

    def __init__(self, machine: TardisMachine, session: aiohttp.ClientSession) -> None:
        self.machine = machine
        self.session = session

    async def get(self, path: str, options: Any = None) -> tuple[int, str, str]:
        """Return status, media type and body."""
        params = {} if options is None else {"options": _text(options)}
        async with self.session.get(self.machine.http_url + path, params=params) as response:
            return response.status, response.content_type, await response.text()

    async def lines(self, path: str, options: Any) -> list[str]:
        status, _, body = await self.get(path, options)
        assert status == 200, body
        assert not body or body.endswith("\n")
        return body.split("\n")[:-1]

    async def websocket(self, path: str, *sends: Any, **params: Any) -> Received:
        """Connect, send, and take everything until the server closes."""
        query = {name: _text(value) for name, value in params.items()}
        async with self.session.ws_connect(self.machine.ws_url + path, params=query) as socket_:
            for each in sends:
                await socket_.send_str(_text(each))
            messages = []
            while (message := await socket_.receive()).type is aiohttp.WSMsgType.TEXT:
                messages.append(message.data)
            return Received(messages, socket_.close_code, message.extra or "")


def active_streams(metrics: str) -> float:
    """Return how many replays are in progress, according to `/metrics`."""
    name = "tardis_machine_server_active_streams{"
    return sum(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith(name))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.fixture
async def data_api() -> AsyncIterator[DataApiStub]:
    # Idle connections in the server's pool would look like leaks to tests that count.
    async with DataApiStub(slices=dict(BITMEX), closes_connections=True) as stub:
        yield stub


@pytest.fixture
def server_options() -> dict[str, Any]:
    return {}


@pytest.fixture
async def client(
    data_api: DataApiStub, tmp_path: Path, server_options: dict[str, Any]
) -> AsyncIterator[Client]:
    options = {
        "port": free_ports(),
        "endpoint": data_api.endpoint,
        "cache_dir": tmp_path / "cache",
        "subscribe_seconds": 0.2,
    }
    async with (
        TardisMachine(**options | server_options) as machine,
        # So would those of the client.
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
    ):
        yield Client(machine, session)
