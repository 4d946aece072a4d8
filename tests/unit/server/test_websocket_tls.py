"""A WebSocket connection over TLS, whose transport counts only a part of what it has queued.

Heartbeat and patience are longer than any test may take, so that nothing but an orderly end can
end a connection.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import WSMsgType

from tardis_machine.server.websocket import WebSocket
from tests.servers.tls import make_certificates
from tests.unit.server.test_websocket import (
    LAST_FRAMES,
    MANY,
    MESSAGE,
    Server,
    say_done,
    send_much,
    serving,
)

LONG_SECONDS = 3600.0
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n\r\n"
)


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    made = make_certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made.cert, made.key)
    return context


@asynccontextmanager
async def peer_of(server: Server) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Connect; little is read ahead of what the test reads."""
    async with (
        aiohttp.ClientSession(read_bufsize=4096) as session,
        session.ws_connect(server.url, ssl=False) as peer,
    ):
        yield peer


@asynccontextmanager
async def slow_peer(
    server: Server,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect with small buffers."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    peer.setblocking(False)
    await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", server.port))
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(
        sock=peer, ssl=trusting, server_hostname="localhost", limit=4096
    )
    writer.write(HANDSHAKE)
    await reader.readuntil(b"\r\n\r\n")
    yield reader, writer
    writer.transport.abort()


async def rest(peer: aiohttp.ClientWebSocketResponse) -> tuple[int, int | None, object]:
    """Read to the end; return how many messages came, the close code and the reason."""
    count = 0
    async with asyncio.timeout(240):
        while (message := await peer.receive()).type is WSMsgType.TEXT:
            count += 1
    return count, peer.close_code, message.extra


@pytest.mark.parametrize(("handler", "count"), [(say_done, 0), (send_much, MANY)])
async def test_replay_ends_with_the_close_frame(
    tls: ssl.SSLContext, handler: object, count: int
) -> None:
    patience = {"heartbeat_seconds": LONG_SECONDS, "slow_client_seconds": LONG_SECONDS}
    async with serving(handler, tls, **patience) as server, peer_of(server) as peer:  # type: ignore[arg-type]
        assert await rest(peer) == (count, 1000, "done")


async def test_peer_that_takes_little_at_a_time_gets_everything(tls: ssl.SSLContext) -> None:
    async with (
        serving(send_much, tls, slow_client_seconds=2.0) as server,
        slow_peer(server) as (reader, writer),
    ):
        size = 0
        async with asyncio.timeout(240):
            # A piece of the server is twenty times as large, and takes longer than its patience.
            while size < 1_000_000:
                size += len(await reader.readexactly(50_000))
                await asyncio.sleep(0.2)
            while not (data := await reader.read(1 << 20)).endswith(LAST_FRAMES):
                size += len(data)
            size += len(data) - len(LAST_FRAMES)
        writer.close()
    assert size == MANY * (len(MESSAGE) + 4)


async def test_peer_that_reads_nothing_is_dropped(tls: ssl.SSLContext) -> None:
    async with serving(send_much, tls, slow_client_seconds=0.4) as server, peer_of(server) as peer:
        await asyncio.wait_for(server.ended.wait(), 240)
        count, code, _ = await rest(peer)
        assert count < MANY
        assert code == 1006


async def test_peer_that_reads_nothing_stops_the_handler(tls: ssl.SSLContext) -> None:
    sent: list[int] = []

    async def send_small_chunks(websocket: WebSocket) -> str:
        while True:
            await websocket.send([MESSAGE] * 10)
            sent.append(10)

    async with serving(send_small_chunks, tls) as server, peer_of(server):
        async with asyncio.timeout(240):
            seen = 0
            while not seen or seen != len(sent):
                seen = len(sent)
                await asyncio.sleep(0.5)
        # Sockets of both ends buffer several megabytes, the process little more than two chunks.
        assert sum(sent) * len(MESSAGE) < 20_000_000
