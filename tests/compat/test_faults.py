"""Clients and data that misbehave: a clear error or a bounded wait, nothing left behind."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from tests.compat.conftest import Client
from tests.compat.recorded import FROM, TO, trade
from tests.servers.data_api import DataApiStub, Fault

RAW = {"exchange": "bitmex", "from": FROM, "to": TO}
MANY = 200_000


@pytest.fixture
def large_feed(data_api: DataApiStub) -> None:
    """A minute of tens of megabytes, far above what sockets buffer."""
    data_api.slices = {("bitmex", "2024-03-01T00:00"): trade("00:01.000000", 1.0) * MANY}


async def until(is_true: Callable[[], bool]) -> None:
    """Wait for something that no event announces."""
    async with asyncio.timeout(240):
        while not is_true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def open_files() -> int:
    return psutil.Process().num_fds()


@pytest.fixture
async def leaves_nothing(client: Client) -> AsyncIterator[None]:
    """Check that tasks and files are as before once the test is over."""
    await client.lines("/replay", {**RAW, "to": FROM})
    tasks, files = len(asyncio.all_tasks()), open_files()
    yield
    await until(lambda: len(asyncio.all_tasks()) <= tasks and open_files() <= files)


async def start_request(
    client: Client, path: str, options: object
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request over a bare socket, so that the test decides what is read."""
    settings = client.machine.settings.server
    reader, writer = await asyncio.open_connection(settings.host, settings.port, limit=1024)
    target = f"{path}?options={quote(json.dumps(options))}"
    writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


@pytest.mark.usefixtures("large_feed", "leaves_nothing")
async def test_client_that_vanishes_ends_its_replay(client: Client, data_api: DataApiStub) -> None:
    _, writer = await start_request(client, "/replay", RAW)
    writer.transport.abort()
    assert await client.lines("/replay", {**RAW, "from": "2024-03-01T00:01"}) == []


@pytest.mark.usefixtures("leaves_nothing")
async def test_client_that_leaves_during_a_download_cancels_it(
    client: Client, data_api: DataApiStub, tmp_path: Path
) -> None:
    data_api.faults = [Fault(times=None, stalls=True)]
    settings = client.machine.settings.server
    _, writer = await asyncio.open_connection(settings.host, settings.port)
    target = f"/replay?options={quote(json.dumps(RAW))}"
    writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await until(lambda: data_api.in_flight > 0)
    writer.transport.abort()
    await until(lambda: data_api.in_flight == 0)
    assert not list((tmp_path / "cache").rglob("*.unconfirmed"))


@pytest.mark.usefixtures("large_feed", "leaves_nothing")
async def test_client_that_stops_reading_holds_up_nobody(client: Client) -> None:
    _, writer = await start_request(client, "/replay", RAW)
    before = psutil.Process().memory_info().rss
    assert len(await client.lines("/replay", RAW)) == MANY
    await asyncio.sleep(0.2)
    # What it did not read stays in its sockets and in one chunk, not in a growing queue.
    assert psutil.Process().memory_info().rss - before < 150_000_000
    writer.transport.abort()


class TestImpatientServer:
    """A server that waits for readers only a moment."""

    @pytest.fixture
    def server_options(self) -> dict[str, float]:
        return {"slow_client_seconds": 1.0}

    @pytest.mark.usefixtures("large_feed", "leaves_nothing")
    async def test_client_that_stops_reading_is_dropped_and_counted(self, client: Client) -> None:
        _, writer = await start_request(client, "/replay", RAW)
        dropped = 'tardis_machine_server_slow_clients_total{route="/replay"} 1.0'
        async with asyncio.timeout(240):
            while dropped not in (await client.get("/metrics"))[2]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        writer.transport.abort()


@pytest.mark.usefixtures("large_feed", "leaves_nothing")
async def test_websocket_client_that_vanishes_ends_its_replay(client: Client) -> None:
    options = quote(json.dumps({**RAW, "dataTypes": ["trade"]}))
    url = f"{client.machine.ws_url}/ws-replay-normalized?options={options}"
    socket = await client.session.ws_connect(url)
    await socket.receive()
    connection = socket._response.connection
    assert connection is not None
    assert connection.transport is not None
    connection.transport.abort()
    await socket.close()


@pytest.mark.usefixtures("leaves_nothing")
async def test_truncated_slice_is_a_clear_error(client: Client, data_api: DataApiStub) -> None:
    data_api.faults = [Fault(times=None, replaces_body=b"\x28\xb5\x2f\xfd\x04\x00\x01")]
    status, _, body = await client.get("/replay", RAW)
    assert status == 500
    assert "Slice" in json.loads(body)["message"]


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("line", [b"junk\n", b"2024-03-01T00:00:00.0000000Z {\n", b"\xff\xfe\n"])
async def test_line_that_is_no_message_is_a_clear_error(
    client: Client, data_api: DataApiStub, line: bytes
) -> None:
    data_api.slices = {("bitmex", "2024-03-01T00:00"): line}
    status, _, body = await client.get("/replay-normalized", {**RAW, "dataTypes": ["trade"]})
    assert status == 500
    assert "bitmex" in json.loads(body)["message"]


class TestManyConnections:
    """A server that reads its cache, so that the connections are all there is to do."""

    @pytest.fixture
    def server_options(self) -> dict[str, bool]:
        return {"trust_cache": True}

    @pytest.mark.usefixtures("leaves_nothing")
    async def test_thousand_connections_are_all_served(self, client: Client) -> None:
        settings = client.machine.settings.server
        target = f"/replay?options={quote(json.dumps(RAW))}"
        request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()

        async def fetch() -> int:
            reader, writer = await asyncio.open_connection(settings.host, settings.port)
            writer.write(request)
            body = await reader.read()
            writer.close()
            return body.count(b'"localTimestamp"')

        await client.lines("/replay", RAW)
        async with asyncio.timeout(240):
            assert await asyncio.gather(*(fetch() for _ in range(1000))) == [6] * 1000
