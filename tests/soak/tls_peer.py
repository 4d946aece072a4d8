"""A client over TLS that takes no more than it asks for."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

READ_BYTES = 4096


class TlsPeer:
    """One end of a TLS connection over a socket; asyncio's own would read ahead."""

    def __init__(self, peer: socket.socket, tls: ssl.SSLContext) -> None:
        self._peer = peer
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._arrived, self._leaving, server_hostname="localhost")

    async def ask(self, request: bytes, size: int) -> bytes:
        """Send a request; return the first bytes of the answer."""
        await self._complete(self._tls.do_handshake)
        self._tls.write(request)
        return await self._complete(lambda: self._tls.read(size))

    async def _complete(self, act: Callable[[], T]) -> T:
        """Do what needs the other side, with its help."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                result = act()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await loop.sock_recv(self._peer, READ_BYTES)
                if not data:
                    raise ConnectionResetError("the server has closed the connection") from None
                self._arrived.write(data)
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        if self._leaving.pending:
            await asyncio.get_running_loop().sock_sendall(self._peer, self._leaving.read())
