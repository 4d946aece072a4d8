"""Exchanges behind one gateway port, which do what a test says: `/HOST/PATH` is a venue's URL."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import WSMsgType, web

PATIENCE_SECONDS = 30.0


async def until(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait until something is true, and return it."""
    async with asyncio.timeout(seconds):
        while not (found := condition()):  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.005)
        return found


def is_ping(frame: Any) -> bool:
    """Say whether a frame is a ping of some venue's own kind."""
    values = frame.values() if isinstance(frame, dict) else ()
    return any(str(value).rpartition(".")[2] == "ping" for value in values)


class VenueSocket:
    """A WebSocket that our side opened."""

    def __init__(self, url: str, websocket: web.WebSocketResponse, request: web.Request) -> None:
        self.url = url
        self.headers = request.headers
        self.frames: list[Any] = []
        """What our side sent, decoded."""
        self.pings = 0
        self.is_gone = False
        self._websocket = websocket
        self._request = request

    @property
    def asked(self) -> list[Any]:
        """What our side sent, without the pings that are messages."""
        return [frame for frame in self.frames if not is_ping(frame)]

    async def send(self, *messages: Any) -> None:
        """Send messages as the venue would."""
        for message in messages:
            text = message if isinstance(message, str) else json.dumps(message)
            await self._websocket.send_str(text)

    async def send_compact(self, *messages: Any) -> None:
        """Send messages written without blanks, as venues do."""
        for message in messages:
            await self._websocket.send_str(json.dumps(message, separators=(",", ":")))

    async def send_bytes(self, data: bytes) -> None:
        """Send a binary frame."""
        await self._websocket.send_bytes(data)

    async def close(self, code: int) -> None:
        """Close in an orderly way."""
        await self._websocket.close(code=code)

    def drop(self) -> None:
        """Break the connection."""
        assert self._request.transport is not None
        self._request.transport.abort()

    async def serve(self) -> None:
        """Take frames until the connection ends."""
        async for message in self._websocket:
            if message.type is WSMsgType.TEXT:
                self.frames.append(json.loads(message.data))
            elif message.type is WSMsgType.PING:
                self.pings += 1
                await self._websocket.pong(message.data)


class Exchanges:
    """All venues of a test."""

    def __init__(self) -> None:
        self.gateway = ""
        self.sockets: list[VenueSocket] = []
        self.requests: list[str] = []
        """Addresses of REST calls, without the gateway."""
        self.answers: dict[str, Any] = {}
        """What REST calls get whose address contains a text: a body, or a status and a body."""
        self.refusals: list[int] = []
        """Statuses of handshakes to refuse."""
        self.on_open: Callable[[VenueSocket], Any] | None = None

    async def socket(self, number: int) -> VenueSocket:
        """Wait for a connection, counted from 1, that has subscribed."""
        await until(lambda: len(self.sockets) >= number)
        socket = self.sockets[number - 1]
        await until(lambda: socket.frames)
        return socket

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Serve a WebSocket or a REST call."""
        url = request.path_qs.removeprefix("/")
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return self._answer_rest(url)
        if self.refusals:
            return web.Response(status=self.refusals.pop(0))
        websocket = web.WebSocketResponse(autoping=False)
        await websocket.prepare(request)
        socket = VenueSocket(url, websocket, request)
        self.sockets.append(socket)
        try:
            if self.on_open is not None:
                await self.on_open(socket)
            with suppress(ConnectionError):
                await socket.serve()
        finally:
            socket.is_gone = True
        return websocket

    def _answer_rest(self, url: str) -> web.Response:
        self.requests.append(url)
        for part, answer in self.answers.items():
            if part in url:
                status, body = answer if isinstance(answer, tuple) else (200, answer)
                return web.json_response(body, status=status)
        return web.json_response({"error": "no such resource"}, status=404)


@asynccontextmanager
async def running_exchanges() -> AsyncIterator[Exchanges]:
    """Run the venues of a test."""
    exchanges = Exchanges()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", exchanges.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        exchanges.gateway = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield exchanges
    finally:
        await runner.cleanup()
