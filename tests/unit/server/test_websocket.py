"""One WebSocket connection: what the peer gets, when it is waited for, when it is dropped."""

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import psutil
import pytest
from aiohttp import WSMsgType, web

from tardis_machine.model.errors import RequestError
from tardis_machine.server.settings import ServerSettings
from tardis_machine.server.websocket import Handler, WebSocket, WebSocketRefusedError

MESSAGE = b"x" * 1000
MANY = 50_000
"""Messages of far more bytes than sockets buffer."""


class Server:
    """A port whose every connection runs one handler."""

    def __init__(self, port: int, scheme: str) -> None:
        self.port = port
        self.url = f"{scheme}://127.0.0.1:{port}/"
        self.ended = asyncio.Event()


@asynccontextmanager
async def serving(
    handler: Handler, tls: ssl.SSLContext | None = None, **settings: Any
) -> AsyncIterator[Server]:
    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await WebSocket(request, ServerSettings(**settings)).serve(handler)
        finally:
            server.ended.set()

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        server = Server(runner.addresses[0][1], "wss" if tls else "ws")
        yield server
    finally:
        await runner.cleanup()


async def send_much(websocket: WebSocket) -> str:
    """Send megabytes in chunks, as a replay does."""
    for _ in range(MANY // 1000):
        await websocket.send([MESSAGE] * 1000)
    return "done"


async def say_done(_: WebSocket) -> str:
    return "done"


def failing_with(error: BaseException) -> Handler:
    async def fail(_: WebSocket) -> str:
        raise error

    return fail


async def ended(server: Server) -> tuple[list[str], int | None, str]:
    """Connect and take everything; return messages, close code and reason."""
    async with aiohttp.ClientSession() as session, session.ws_connect(server.url) as peer:
        messages = []
        while (message := await peer.receive()).type is WSMsgType.TEXT:
            messages.append(message.data)
        return messages, peer.close_code, message.extra or ""


@asynccontextmanager
async def silent_peer(server: Server) -> AsyncIterator[socket.socket]:
    """Connect without reading more than the handshake."""
    loop = asyncio.get_running_loop()
    with socket.socket() as peer:
        # Small, so that little fits between the two ends.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.setblocking(False)
        await loop.sock_connect(peer, ("127.0.0.1", server.port))
        key = base64.b64encode(os.urandom(16)).decode()
        await loop.sock_sendall(
            peer,
            f"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode(),
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await loop.sock_recv(peer, 1)
        yield peer


async def drained(peer: socket.socket) -> int:
    """Read to the end; return how many bytes came."""
    loop = asyncio.get_running_loop()
    count = 0
    while data := await loop.sock_recv(peer, 1 << 20):
        count += len(data)
    return count


async def test_everything_is_sent_before_the_close() -> None:
    async with serving(send_much) as server:
        messages, code, reason = await ended(server)
    assert (len(messages), code, reason) == (MANY, 1000, "done")
    assert set(messages) == {MESSAGE.decode()}


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (RequestError("no such thing"), 1011, "Error: no such thing"),
        (TypeError("what"), 1011, "TypeError: what"),
        (WebSocketRefusedError(1008, "Too much"), 1008, "Too much"),
        (RequestError("x" * 200), 1011, "Error: " + "x" * 113),
    ],
)
async def test_failure_becomes_a_close_code_and_a_reason(
    error: Exception, code: int, reason: str
) -> None:
    async with serving(failing_with(error)) as server:
        assert await ended(server) == ([], code, reason)


async def test_peer_that_reads_nothing_is_dropped() -> None:
    async with serving(send_much, slow_client_seconds=0.2) as server, silent_peer(server) as peer:
        await asyncio.wait_for(server.ended.wait(), 120)
        assert await asyncio.wait_for(drained(peer), 120) < MANY * len(MESSAGE)


async def test_peer_that_reads_nothing_holds_little_more_than_a_chunk() -> None:
    queued: list[int] = []

    async def send_small_chunks(websocket: WebSocket) -> str:
        transport = websocket.request.transport
        assert transport is not None
        while True:
            queued.append(transport.get_write_buffer_size())
            await websocket.send([MESSAGE] * 10)

    async with serving(send_small_chunks) as server, silent_peer(server):
        async with asyncio.timeout(120):
            sent = -1
            while sent != len(queued) or not queued[-1]:
                sent = len(queued)
                await asyncio.sleep(0.3)
        assert max(queued) < 100_000


async def test_peer_that_reads_now_and_then_gets_everything() -> None:
    async with (
        serving(send_much, slow_client_seconds=2.0) as server,
        aiohttp.ClientSession() as session,
        session.ws_connect(server.url) as peer,
    ):
        count = 0
        while (message := await peer.receive()).type is WSMsgType.TEXT:
            count += 1
            if count <= MANY // 2 and count % (MANY // 8) == 0:
                # Longer than the server's patience in all, but never at once.
                await asyncio.sleep(0.6)
        assert (count, peer.close_code, message.extra) == (MANY, 1000, "done")


async def test_control_frames_never_split_a_message() -> None:
    async with (
        serving(send_much, heartbeat_seconds=0.2) as server,
        aiohttp.ClientSession() as session,
        session.ws_connect(server.url) as peer,
    ):
        for _ in range(20):
            # The server is in the middle of a chunk now, waiting for us.
            await peer.ping(b"y")
            await asyncio.sleep(0.01)
        messages = set()
        count = 0
        while (message := await peer.receive()).type is WSMsgType.TEXT:
            count += 1
            messages.add(message.data)
            if count % 100 == 0:
                await peer.ping(b"y")
        assert (count, peer.close_code, message.extra) == (MANY, 1000, "done")
        assert messages == {MESSAGE.decode()}


async def test_heartbeat_spares_a_peer_with_bytes_on_the_way() -> None:
    async with serving(send_much, heartbeat_seconds=0.05) as server, silent_peer(server):
        await asyncio.sleep(0.5)
        assert not server.ended.is_set()


async def wait_for_ever(_: WebSocket) -> str:
    await asyncio.Event().wait()
    return ""


async def test_heartbeat_drops_an_idle_peer_without_a_sign_of_life() -> None:
    async with serving(wait_for_ever, heartbeat_seconds=0.05) as server, silent_peer(server):
        await asyncio.wait_for(server.ended.wait(), 120)


async def test_ping_of_the_peer_is_a_sign_of_life() -> None:
    loop = asyncio.get_running_loop()
    async with (
        serving(wait_for_ever, heartbeat_seconds=1.0) as server,
        silent_peer(server) as peer,
    ):
        for _ in range(60):
            await asyncio.sleep(0.05)
            await loop.sock_sendall(peer, b"\x89\x80\0\0\0\0")
        assert not server.ended.is_set()


async def test_peer_that_leaves_ends_the_handler() -> None:
    async with serving(wait_for_ever) as server:
        async with aiohttp.ClientSession() as session, session.ws_connect(server.url):
            pass
        await asyncio.wait_for(server.ended.wait(), 120)


async def received(peer: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    async with asyncio.timeout(120):
        while len(data) < size and (more := await loop.sock_recv(peer, size - len(data))):
            data += more
    return data


LAST_FRAMES = b"\x89\x03end" + b"\x88\x06\x03\xe8done"
CLOSE_ANSWER = b"\x88\x80\0\0\0\0"
PONG = b"\x8a\x83\0\0\0\0end"


@pytest.mark.parametrize("answer", [CLOSE_ANSWER, PONG, PONG + CLOSE_ANSWER])
async def test_connection_ends_with_one_close_frame_once_it_was_read(answer: bytes) -> None:
    async with serving(say_done) as server, silent_peer(server) as peer:
        assert await received(peer, len(LAST_FRAMES)) == LAST_FRAMES
        assert not server.ended.is_set()
        await asyncio.get_running_loop().sock_sendall(peer, answer)
        assert await received(peer, 1) == b""
        await asyncio.wait_for(server.ended.wait(), 120)


async def test_peer_that_closes_first_is_answered() -> None:
    async with serving(wait_for_ever) as server, silent_peer(server) as peer:
        await asyncio.get_running_loop().sock_sendall(peer, b"\x88\x82\0\0\0\0\x03\xe8")
        assert (await received(peer, 100))[:1] == b"\x88"


async def test_peer_that_never_answers_the_close_is_dropped() -> None:
    async with serving(say_done, heartbeat_seconds=0.1) as server, silent_peer(server):
        await asyncio.wait_for(server.ended.wait(), 120)


async def test_stopping_ends_connections_that_nobody_reads() -> None:
    async with AsyncExitStack() as peers:
        async with serving(send_much) as server:
            await peers.enter_async_context(silent_peer(server))
            await asyncio.sleep(0.1)
            assert served_sockets(server) == 1
        async with asyncio.timeout(120):
            while served_sockets(server):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


def served_sockets(server: Server) -> int:
    connections = psutil.Process().net_connections("tcp")
    served = [each for each in connections if each.laddr.port == server.port and each.raddr]
    return len(served)


async def test_nothing_is_left_running() -> None:
    before = len(asyncio.all_tasks())
    async with serving(say_done) as server:
        await ended(server)
        await asyncio.wait_for(server.ended.wait(), 120)
    assert len(asyncio.all_tasks()) == before
