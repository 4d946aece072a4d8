"""Clients that leave a slowed replay, or only close their side of it, while nothing is due."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.compat.conftest import Client, active_streams
from tests.compat.recorded import FROM, TO

NEVER = 1e-320
RAW = {"exchange": "bitmex", "from": FROM, "to": TO}
RESET = struct.pack("ii", 1, 0)
STARTS = ["/replay", "/replay-normalized"]


def request(path: str, speed: float, version: str = "1.1") -> bytes:
    options = {**RAW, "speed": speed}
    if path == "/replay-normalized":
        options["dataTypes"] = ["trade"]
    text = json.dumps(options).replace(" ", "")
    return f"GET {path}?options={text} HTTP/{version}\r\nHost: localhost\r\n\r\n".encode()


@asynccontextmanager
async def replaying(
    client: Client, request: bytes, *, half_close: bool
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Ask for a replay, and take what comes at once."""
    settings = client.machine.settings.server
    reader, writer = await asyncio.open_connection(settings.host, settings.port)
    try:
        writer.write(request)
        if half_close:
            writer.write_eof()
        async with asyncio.timeout(60):
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.read(65_536)
            yield reader, writer
    finally:
        writer.close()


async def active(client: Client) -> float:
    return active_streams((await client.get("/metrics"))[2])


async def all_ended(client: Client) -> None:
    async with asyncio.timeout(60):
        while await active(client):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("path", STARTS)
@pytest.mark.parametrize("half_close", [False, True])
async def test_client_that_left_a_slowed_replay_ends_it_soon(
    client: Client, path: str, half_close: bool
) -> None:
    async with replaying(client, request(path, NEVER), half_close=half_close) as (_, writer):
        assert await active(client) == 1
        writer.close()
        await all_ended(client)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_client_that_reset_a_slowed_replay_after_closing_its_side_ends_it_soon(
    client: Client, version: str
) -> None:
    asked = request("/replay", NEVER, version)
    async with replaying(client, asked, half_close=True) as (_, writer):
        assert await active(client) == 1
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()
        await all_ended(client)


@pytest.mark.parametrize("path", STARTS)
async def test_client_that_only_closed_its_side_gets_the_whole_slowed_replay(
    client: Client, path: str
) -> None:
    # The recorded minutes have pauses of seconds at this speed.
    asked = request(path, 12)
    settings = client.machine.settings.server
    whole = await body_of(settings.host, settings.port, asked, half_close=False)
    assert await body_of(settings.host, settings.port, asked, half_close=True) == whole


async def body_of(host: str, port: int, request: bytes, *, half_close: bool) -> bytes:
    """Return the body as the client of a library decodes it."""
    raw = b""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    if half_close:
        writer.write_eof()
    async with asyncio.timeout(60):
        while not raw.endswith(b"0\r\n\r\n"):
            raw += await reader.read(65_536)
    writer.close()
    assert (b"\r\n00" in raw) == half_close
    return await decoded(raw)


async def decoded(raw: bytes) -> bytes:
    """Let a library read what was sent."""

    async def replay(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(replay, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with (
        server,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/") as response,
    ):
        return await response.read()
