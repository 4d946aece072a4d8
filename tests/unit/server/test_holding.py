"""What is held for a client that reads nothing, where there are many of them."""

import asyncio
import socket
import ssl
from pathlib import Path

from tardis_machine.server.guards.sockets import UNSENT_BYTES, limit_unsent
from tests.servers.tls import make_certificates
from tests.soak.tls_peer import TlsPeer

PIECE = b" " * 4096


class Writer(asyncio.Protocol):
    """Writes until it is told to wait."""

    def __init__(self) -> None:
        self.written = 0
        self.is_paused = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        limit_unsent(transport)
        self._transport = transport

    def data_received(self, _: bytes) -> None:
        self._write()

    def _write(self) -> None:
        if not self.is_paused.is_set():
            self._transport.write(PIECE)
            self.written += len(PIECE)
            # A turn later: what the kernel takes is gone by then.
            asyncio.get_running_loop().call_soon(self._write)

    def pause_writing(self) -> None:
        self.is_paused.set()


async def written_bytes(tls: ssl.SSLContext | None, trusting: ssl.SSLContext) -> int:
    """Return how much is written to a client that reads nothing before the writer must wait."""
    loop, writer = asyncio.get_running_loop(), Writer()
    async with await loop.create_server(lambda: writer, "127.0.0.1", 0, ssl=tls) as server:
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.setblocking(False)
            await loop.sock_connect(peer, server.sockets[0].getsockname())
            if tls is None:
                await loop.sock_sendall(peer, b"go")
            else:
                await TlsPeer(peer, trusting).ask(b"go", 1)
            async with asyncio.timeout(120):
                await writer.is_paused.wait()
    return writer.written


async def test_little_more_is_held_over_tls(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(made.cert, made.key)
    trusting = ssl.create_default_context(cafile=made.ca)
    plain = await written_bytes(None, trusting)
    assert await written_bytes(tls, trusting) <= plain + UNSENT_BYTES + 4 * len(PIECE)
