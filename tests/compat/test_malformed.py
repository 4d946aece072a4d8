"""Input that is wrong in other ways than a client's: an answer, no traceback, little text."""

import asyncio
import json
import logging
import socket
import time
from typing import Any

import pytest

from tardis_machine.server.guards.connections import CONTINUE
from tests.compat.conftest import Client
from tests.compat.recorded import FROM, TO
from tests.servers.data_api import DataApiStub, Fault

RAW = {"exchange": "bitmex", "from": FROM, "to": TO}
NORMALIZED = {**RAW, "dataTypes": ["trade"]}
HUGE = "1" + "0" * 400


def with_text(options: dict[str, Any], name: str, value: str) -> str:
    """Add a field whose value Python would not write."""
    return json.dumps({**options, name: "VALUE"}).replace('"VALUE"', value)


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("/replay", with_text(RAW, "speed", HUGE)),
        ("/replay", with_text(RAW, "speed", "1e308")),
        ("/replay", with_text(RAW, "speed", "1e400")),
        ("/replay", with_text(RAW, "waitWhenDataNotYetAvailable", HUGE)),
        ("/replay", with_text(RAW, "from", HUGE)),
        ("/replay", with_text(RAW, "filters", "[" * 1500 + "]" * 1500)),
        ("/replay-normalized", {**NORMALIZED, "dataTypes": ["trade_bar_1e300m"]}),
        ("/replay-normalized", {**NORMALIZED, "dataTypes": ["book_snapshot_1e300_1s"]}),
        ("/replay-normalized", {**NORMALIZED, "dataTypes": ["book_snapshot_5_grouped1e300_1s"]}),
    ],
)
async def test_numbers_beyond_bounds_and_deep_nesting_are_refused_without_a_traceback(
    client: Client, caplog: pytest.LogCaptureFixture, path: str, options: Any
) -> None:
    status, _, body = await client.get(path, options)
    assert status == 500
    assert "invalid" in json.loads(body)["message"].lower()
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("name", ["exchange", "from", "symbols", "dataTypes"])
async def test_long_values_are_not_repeated(
    client: Client, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    for long in ("x" * 100_000, ["x" * 100_000], {"x" * 100_000: 1}):
        status, _, body = await client.get("/replay-normalized", {**NORMALIZED, name: long})
        if status != 200:
            assert "x" * 1000 not in body
    received = await client.websocket("/ws-replay", **{**RAW, "exchange": "x" * 100_000})
    assert received.code == 1011
    assert "x" * 1000 not in "".join(str(record.__dict__) for record in caplog.records)


async def answer(client: Client, request: bytes, *, half_close: bool = False) -> bytes:
    settings = client.machine.settings.server
    reader, writer = await asyncio.open_connection(settings.host, settings.port)
    writer.write(request)
    if half_close:
        writer.write_eof()
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /replay HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n",
        b"GET /replay HTTP/1.1\r\n" + b"a" * 3_000_000 + b": b\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nA: " + b"b" * 20_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_malformed_request_is_counted_and_logged_for_debugging_only(
    client: Client, caplog: pytest.LogCaptureFixture, request_: bytes
) -> None:
    with caplog.at_level(logging.DEBUG):
        try:
            got = await answer(client, request_)
        except ConnectionError:
            got = b"HTTP/1.1 400 "
    assert got.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    assert len(got) < 1000
    ours = [record for record in caplog.records if record.name.startswith(("tardis", "aiohttp"))]
    assert all(record.levelno <= logging.DEBUG for record in ours)
    metrics = (await client.get("/metrics"))[2]
    assert "tardis_machine_server_malformed_requests_total 1.0" in metrics


@pytest.mark.parametrize("path", ["/health-check", f"/replay?options={json.dumps(RAW)}"])
async def test_client_that_closed_its_side_is_answered(client: Client, path: str) -> None:
    path = path.replace(" ", "")
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    got = await answer(client, request, half_close=True)
    assert got.startswith(b"HTTP/1.1 200 ")
    assert got.endswith((b"}", b"0\r\n\r\n"))


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 9\r\n\r\n",
        b"Content-Length: 9\r\n\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ],
)
async def test_body_that_ends_too_early_is_refused_at_once(
    client: Client, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    started = time.monotonic()
    head = b"POST /replay HTTP/1.1\r\nHost: localhost\r\n"
    got = await answer(client, head + body, half_close=True)
    assert not [record for record in caplog.records if record.exc_info]
    assert got.startswith(b"HTTP/1.1 400 ")
    assert b"ends too early" in got
    assert time.monotonic() - started < client.machine.settings.server.request_timeout_seconds


async def test_client_that_closed_without_a_request_is_gone(client: Client) -> None:
    assert await answer(client, b"", half_close=True) == b""
    assert await answer(client, b"GET / HT", half_close=True) == b""


async def test_client_that_closed_its_side_is_answered_when_that_takes_a_while(
    client: Client, data_api: DataApiStub
) -> None:
    data_api.faults = [Fault(times=1, delay_seconds=6.0)]
    path = f"/replay?options={json.dumps(RAW)}".replace(" ", "")
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    got = await answer(client, request, half_close=True)
    assert got.replace(CONTINUE, b"").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("server_options", [{"request_timeout_seconds": 1.0}])
async def test_client_that_closed_during_a_download_ends_it_soon(
    client: Client, data_api: DataApiStub
) -> None:
    data_api.faults = [Fault(times=None, stalls=True)]
    path = f"/replay?options={json.dumps(RAW)}".replace(" ", "")
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    assert (await answer(client, request, half_close=True)).replace(CONTINUE, b"") == b""
    async with asyncio.timeout(60):
        while data_api.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("server_options", [{"request_timeout_seconds": 600.0}])
async def test_client_that_left_during_a_download_ends_it_soon(
    client: Client, data_api: DataApiStub
) -> None:
    data_api.faults = [Fault(times=None, stalls=True)]
    path = f"/replay?options={json.dumps(RAW)}".replace(" ", "")
    settings = client.machine.settings.server
    _, writer = await asyncio.open_connection(settings.host, settings.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    async with asyncio.timeout(60):
        while not data_api.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        writer.close()
        while data_api.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_key_that_the_data_api_repeats_is_hidden(
    client: Client, data_api: DataApiStub, caplog: pytest.LogCaptureFixture
) -> None:
    data_api.faults = [Fault(times=None, status=401, body="no access for TD.secret-key")]
    for path, options in (("/replay", RAW), ("/replay-normalized", NORMALIZED)):
        status, _, body = await client.get(path, {**options, "apiKey": "TD.secret-key"})
        assert status == 401
        assert "no access for ***" in body
        assert "TD.secret-key" not in body + caplog.text


HANDSHAKE = (
    f"GET /ws-replay?exchange=bitmex&from={FROM}&to={TO} HTTP/1.1\r\nHost: localhost\r\n"
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n\r\n"
).encode()
MASKED_PING = b"\x89\x81\0\0\0\0x"
MASKED_LONG = b"\x81\xfe\x01\x00\0\0\0\0" + b" " * 256
UNMASKED_TEXT = b"\x81\x00"


# A connection without subscriptions ends soon, and a busy machine needs long for single bytes.
@pytest.mark.parametrize("server_options", [{"subscribe_seconds": 60.0}])
@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_unmasked_frame_ends_the_connection(client: Client, size: int) -> None:
    settings = client.machine.settings.server
    reader, writer = await asyncio.open_connection(settings.host, settings.port + 1)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    writer.write(HANDSHAKE)
    async with asyncio.timeout(60):
        await reader.readuntil(b"\r\n\r\n")
        frames = MASKED_LONG + MASKED_PING
        for start in range(0, len(frames), size):
            writer.write(frames[start : start + size])
            await asyncio.sleep(0)
        assert await reader.readexactly(3) == b"\x8a\x01x"
        writer.write(UNMASKED_TEXT)
        assert await reader.read() == b"\x88\x10\x03\xeaunmasked frame"
    writer.close()


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 99"),
        (b"MTIzNDU2Nzg5MDEyMzQ1Ng==", b"x"),
        (b"Connection: Upgrade", b"Connection: close"),
    ],
)
async def test_wrong_handshake_is_refused_without_a_traceback(
    client: Client, caplog: pytest.LogCaptureFixture, given: bytes, wrong: bytes
) -> None:
    settings = client.machine.settings.server
    reader, writer = await asyncio.open_connection(settings.host, settings.port + 1)
    writer.write(HANDSHAKE.replace(given, wrong))
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 4")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
