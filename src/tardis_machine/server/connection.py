"""One WebSocket connection: chunks out, life signs in, an orderly end."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from tardis_machine.model.errors import TardisMachineError
from tardis_machine.server.frames import close_reason, text_frames
from tardis_machine.server.settings import ServerSettings

log = structlog.get_logger(__name__)

MAX_INCOMING_BYTES = 512 * 1024
PIECE_BYTES = 1024 * 1024
"""Written at once; asyncio moves what a socket does not take to the front after every send."""

QUEUED_BYTES = 1024 * 1024
"""Bytes that may wait for the client before production pauses."""

PEER_TIMEOUT_MS = 120_000
"""How long sent bytes may stay unacknowledged by the peer's machine."""

_SHORTEST_WAIT_SECONDS = 0.001
_LONGEST_WAIT_SECONDS = 0.05

Handler = Callable[["Connection"], Awaitable[str]]
"""Serves a connection and returns the reason of its normal end."""


class CloseConnection(Exception):  # noqa: N818 - an instruction, not a fault of ours
    """Ends a connection with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Connection:
    """A connection that a handler sends chunks to."""

    def __init__(self, request: web.Request, settings: ServerSettings) -> None:
        self.request = request
        self.on_text: Callable[[str], None] | None = None
        self._settings = settings
        self._shows_life = True
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        self._socket = web.WebSocketResponse(
            autoping=False,
            compress=False,
            max_msg_size=MAX_INCOMING_BYTES,
            protocols=[name.strip() for name in offered.split(",") if name.strip()][:1],
            timeout=settings.slow_client_seconds,
        )

    @property
    def is_closed(self) -> bool:
        """Say whether nothing can be sent any more."""
        return self._socket.closed

    async def serve(self, handler: Handler) -> web.WebSocketResponse:
        """Run a handler until it ends or the peer leaves, whichever is first."""
        await self._socket.prepare(self.request)
        self._limit_silence()
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(self._run(handler), name="websocket work")
            watch = tasks.create_task(self._watch(), name="websocket heartbeat")
            await self._read()
            work.cancel()
            watch.cancel()
        return self._socket

    async def send(self, messages: Iterable[bytes]) -> None:
        """Send each message as one text frame; wait while the peer is slow."""
        transport = self.request.transport
        if transport is None or self._socket.closed:
            raise ConnectionResetError("the peer has gone")
        frames = text_frames(messages)
        for start in range(0, len(frames), PIECE_BYTES):
            transport.write(frames[start : start + PIECE_BYTES])
            await self._drain(QUEUED_BYTES)

    async def close(self, code: int, reason: str) -> None:
        """Close with a code and a reason, cut to what a frame can carry."""
        await self._socket.close(code=code, message=close_reason(reason))

    async def _run(self, handler: Handler) -> None:
        """Run the handler and end the connection as its outcome asks."""
        try:
            reason = await handler(self)
            await self._drain(0)
            await self.close(WSCloseCode.OK, reason)
        except ConnectionError:
            self._abort()
        except CloseConnection as instruction:
            await self.close(instruction.code, instruction.reason)
        except TardisMachineError as error:
            log.warning("websocket request failed", error=str(error))
            await self.close(WSCloseCode.INTERNAL_ERROR, f"Error: {error}")
        except Exception as error:
            log.exception("websocket request failed")
            await self.close(WSCloseCode.INTERNAL_ERROR, f"{type(error).__name__}: {error}")

    async def _read(self) -> None:
        """Take what the peer sends until it is gone."""
        async for message in self._socket:
            if message.type is WSMsgType.PING:
                await self._socket.pong(message.data)
                continue
            self._shows_life = True
            if message.type is WSMsgType.TEXT and self.on_text is not None:
                self.on_text(message.data)

    async def _watch(self) -> None:
        """Drop a peer that shows no life between two looks; reading what we send is life."""
        while True:
            await asyncio.sleep(self._settings.heartbeat_seconds)
            if not self._shows_life and not self._queued_bytes():
                self._abort()
                return
            self._shows_life = False
            try:
                await self._socket.ping()
            except ConnectionError:
                return

    async def _drain(self, limit: int) -> None:
        """Wait until at most `limit` bytes are queued; drop a peer that accepts none for long."""
        pause = _SHORTEST_WAIT_SECONDS
        queued = self._queued_bytes()
        silent_seconds = 0.0
        while queued > limit:
            await asyncio.sleep(pause)
            before, queued = queued, self._queued_bytes()
            silent_seconds = 0.0 if queued < before else silent_seconds + pause
            if silent_seconds > self._settings.slow_client_seconds:
                raise ConnectionResetError("the peer accepted no data")
            pause = min(pause * 2, _LONGEST_WAIT_SECONDS)

    def _queued_bytes(self) -> int:
        transport = self.request.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    def _limit_silence(self) -> None:
        transport = self.request.transport
        connection = transport.get_extra_info("socket") if transport else None
        if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PEER_TIMEOUT_MS)

    def _abort(self) -> None:
        if self.request.transport is not None:
            self.request.transport.abort()
