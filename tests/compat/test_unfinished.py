"""Large requests that never become complete: bounded over all connections, small ones served."""

import asyncio
from typing import Any

import pytest

from tests.compat.conftest import Client

UNFINISHED = 80
SIZE = 1_000_000
HEAD = b"GET /replay?options=" + b"a" * SIZE
BODY = b"POST /replay HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n" + b" " * SIZE


@pytest.fixture
def server_options() -> dict[str, Any]:
    # Nothing but the budget may end a connection.
    return {"request_timeout_seconds": 3600.0}


async def start(client: Client, data: bytes) -> asyncio.Task[bytes]:
    """Send on a new connection; the task ends with it."""
    settings = client.machine.settings.server
    reader, writer = await asyncio.open_connection(settings.host, settings.port)

    async def until_the_end() -> bytes:
        try:
            writer.write(data)
            await writer.drain()
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()

    return asyncio.create_task(until_the_end())


@pytest.mark.parametrize("data", [HEAD, BODY])
async def test_unfinished_requests_share_a_budget(client: Client, data: bytes) -> None:
    started = [await start(client, data) for _ in range(UNFINISHED)]
    async with asyncio.timeout(240):
        await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
    assert (await client.get("/health-check"))[0] == 200
    for each in started:
        each.cancel()
    await asyncio.wait(started)

    # What they held is free again.
    async with asyncio.timeout(240):
        ended = b"GET /health-check?" + b"a" * SIZE
        ended += b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        while b"Healthy" not in await (await start(client, ended)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
