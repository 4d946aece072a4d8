"""A bridge from WebSockets to a TCP server, as the gateways of Azure have one for AMQP."""

import asyncio
from contextlib import suppress

from aiohttp import WSMsgType, web

from tests.servers.tcp_proxy import CHUNK_BYTES, server_context
from tests.servers.threaded import ServerThread
from tests.servers.tls import Certificates

AMQP = "AMQPWSB10"
GRACE_SECONDS = 0.1


class WebSocketBridge(ServerThread):
    """Carry the bytes of WebSockets to `target`, host and port, and back."""

    def __init__(self, target: str, certificates: Certificates) -> None:
        super().__init__()
        self._target = target
        self._tls = server_context(certificates)
        self._runner: web.AppRunner | None = None
        self.connections_total = 0

    async def open(self) -> None:
        """Listen on the port."""
        app = web.Application()
        app.router.add_get("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=GRACE_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls).start()

    async def shut(self) -> None:
        """Stop listening and end every connection."""
        assert self._runner is not None
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        self.connections_total += 1
        client = web.WebSocketResponse(protocols=(AMQP,))
        await client.prepare(request)
        host, _, port = self._target.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        replies = asyncio.create_task(_carry_replies(reader, client))
        try:
            async for message in client:
                if message.type is WSMsgType.BINARY:
                    writer.write(message.data)
                    await writer.drain()
        finally:
            replies.cancel()
            writer.close()
        return client


async def _carry_replies(reader: asyncio.StreamReader, client: web.WebSocketResponse) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(CHUNK_BYTES):
            await client.send_bytes(data)
    await client.close()
