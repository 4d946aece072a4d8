"""Both ports of one process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tardis_machine.server.app import http_application, ws_application
from tardis_machine.server.services import Services

SHUTDOWN_SECONDS = 1.0
"""How long open responses may go on once the server stops."""


@asynccontextmanager
async def open_runners(services: Services) -> AsyncIterator[tuple[web.AppRunner, web.AppRunner]]:
    """Set up the applications of the HTTP and the WebSocket port."""
    limit = services.settings.max_head_bytes
    options: dict[str, Any] = {
        "handler_cancellation": True,
        "access_log": None,
        "max_line_size": limit,
        "max_field_size": limit,
        "shutdown_timeout": SHUTDOWN_SECONDS,
    }
    http = web.AppRunner(http_application(services), **options)
    ws = web.AppRunner(ws_application(services), **options)
    await http.setup()
    await ws.setup()
    try:
        yield http, ws
    finally:
        # Connections of the WebSocket port go first, as clients of the reference see it.
        await ws.cleanup()
        await http.cleanup()


@asynccontextmanager
async def listen(services: Services) -> AsyncIterator[None]:
    """Serve both ports while the body runs."""
    settings = services.settings
    async with open_runners(services) as (http, ws):
        await web.TCPSite(http, settings.host, settings.port).start()
        await web.TCPSite(ws, settings.host, settings.port + 1).start()
        yield


async def serve_until(stop: asyncio.Event, services: Services) -> None:
    """Serve both ports until told to stop."""
    async with listen(services):
        await stop.wait()
