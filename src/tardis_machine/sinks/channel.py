"""Frames over a socket. What is sent goes from the caller's bytes to the kernel, without a copy."""

import asyncio
import socket
from collections import deque
from types import TracebackType
from typing import Self

from tardis_machine.sinks.frames import HEADER, Frame, Kind


class Channel:
    """One connection: frames are read by the caller and sent by a task of its own.

    Use it with `async with`. After a failure of the connection, `read` raises ConnectionError.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._outgoing: deque[bytes] = deque()
        self._has_more = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._sending = asyncio.create_task(self._send_all(), name="frames")

    def send(self, kind: Kind, stream: int, sequence: int, payload: bytes) -> None:
        """Send a frame, some time after all that were given before."""
        self._outgoing.append(HEADER.pack(len(payload), kind, stream, sequence))
        if payload:
            self._outgoing.append(payload)
        self._is_idle.clear()
        self._has_more.set()

    async def read(self) -> Frame:
        """Read one frame."""
        header = await self._receive(HEADER.size)
        length, kind, stream, sequence = HEADER.unpack(header)
        return Frame(Kind(kind), stream, sequence, await self._receive(length))

    async def wait_until_sent(self) -> None:
        """Wait until everything was given to the system, or the connection has failed."""
        idle = asyncio.create_task(self._is_idle.wait())
        await asyncio.wait({idle, self._sending}, return_when="FIRST_COMPLETED")
        idle.cancel()

    async def wait_until_closed(self) -> None:
        """Wait until the peer ends the connection, and ignore what it sends."""
        try:
            while await self._loop.sock_recv(self._connection, 1 << 16):
                pass
        except OSError:
            return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._sending.cancel()
        # The caller may be cancelled while it waits here.
        try:
            await asyncio.wait({self._sending})
        finally:
            self._connection.close()

    async def _send_all(self) -> None:
        try:
            while True:
                while self._outgoing:
                    await self._loop.sock_sendall(self._connection, self._outgoing.popleft())
                self._is_idle.set()
                self._has_more.clear()
                await self._has_more.wait()
        except OSError:
            # Whoever reads learns it too, and decides.
            return

    async def _receive(self, size: int) -> bytearray:
        buffer = bytearray(size)
        rest = memoryview(buffer)
        while rest:
            count = await self._loop.sock_recv_into(self._connection, rest)
            if not count:
                raise ConnectionResetError("the connection is closed")
            rest = rest[count:]
        return buffer


async def connect(path: str) -> Channel:
    """Connect to a listening Unix socket; OSError when nobody listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, path)
    except BaseException:
        connection.close()
        raise
    return Channel(connection)
