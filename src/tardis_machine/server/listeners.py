"""Both ports of one process."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

from tardis_machine.server.app import http_application, ws_application
from tardis_machine.server.guards.connections import Connection
from tardis_machine.server.guards.sockets import limit_tls_buffers
from tardis_machine.server.services import Services

SHUTDOWN_SECONDS = 1.0
"""How long open responses may go on once the server stops."""

BACKLOG = 1024

MAX_FIELD_BYTES = 16 * 1024
"""The largest header field; a head has up to 128 of them, and only its first line has options."""


class Port:
    """An application and the connections it serves."""

    def __init__(self, application: web.Application, services: Services) -> None:
        self._settings = services.settings
        self._metrics = services.metrics.server
        self._arrivals = services.arrivals
        self._tls = services.settings.tls_context()
        self._runner = web.AppRunner(
            application, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS
        )

    @property
    def load(self) -> int:
        """Return how many connections are open."""
        return len(self._server.connections)

    async def open(self) -> None:
        """Set up the application."""
        await self._runner.setup()

    async def close(self) -> None:
        """End every connection."""
        await self._runner.cleanup()

    @asynccontextmanager
    async def listen(self, number: int) -> AsyncIterator[None]:
        """Accept connections while the body runs."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(
            self._connection, self._settings.host, number, backlog=BACKLOG, **self._tls_options
        )
        try:
            yield
        finally:
            listener.close()

    async def adopt(self, connection: socket.socket) -> None:
        """Serve a connection that was accepted elsewhere."""
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        # A handshake that fails is the client's affair.
        with suppress(OSError):
            await loop.connect_accepted_socket(self._connection, connection, **self._tls_options)

    @property
    def _tls_options(self) -> dict[str, Any]:
        if self._tls is None:
            return {}
        limit_tls_buffers()
        return {
            "ssl": self._tls,
            "ssl_handshake_timeout": self._settings.request_timeout_seconds,
            # What is queued when the response ends is lost after this time.
            "ssl_shutdown_timeout": self._settings.slow_client_seconds,
        }

    @property
    def _server(self) -> web.Server:
        assert self._runner.server is not None
        return self._runner.server

    def _connection(self) -> Connection:
        return Connection(
            self._server,
            self._settings,
            self._metrics,
            self._arrivals,
            loop=asyncio.get_running_loop(),
            access_log=None,
            # A few bytes may expand to gigabytes; who reads a body decompresses it.
            auto_decompress=False,
            max_line_size=self._settings.max_head_bytes,
            max_field_size=MAX_FIELD_BYTES,
        )


@asynccontextmanager
async def open_ports(services: Services) -> AsyncIterator[tuple[Port, Port]]:
    """Set up the applications of the HTTP and the WebSocket port."""
    http = Port(http_application(services), services)
    ws = Port(ws_application(services), services)
    await http.open()
    await ws.open()
    try:
        yield http, ws
    finally:
        # Connections of the WebSocket port go first, as clients of the reference see it.
        await ws.close()
        await http.close()


@asynccontextmanager
async def listen(services: Services) -> AsyncIterator[None]:
    """Serve both ports while the body runs."""
    number = services.settings.port
    async with open_ports(services) as (http, ws), http.listen(number), ws.listen(number + 1):
        yield
