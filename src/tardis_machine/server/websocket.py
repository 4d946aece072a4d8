"""One WebSocket connection: chunks out, life signs in, an orderly end."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from tardis_machine.model.errors import RequestError, TardisMachineError
from tardis_machine.model.texts import shortened
from tardis_machine.server.guards.admission import ServerBusyError
from tardis_machine.server.guards.sockets import acknowledged_bytes
from tardis_machine.server.settings import ServerSettings
from tardis_machine.server.ws_frames import close_frame, line_frames, ping_frame, text_frames
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

MAX_INCOMING_BYTES = 512 * 1024
PIECE_BYTES = 1024 * 1024
"""Written at once, more or less; asyncio moves what a socket does not take to the front after every
send."""

CHECKS = 4
"""How often a client that reads nothing is looked at before it is dropped."""

ANSWER_SECONDS = 1.0
"""How long a peer that has read everything may take to answer a close frame."""

_LAST_PING = b"end"

Handler = Callable[["WebSocket"], Awaitable[str]]
"""Serves a connection and returns the reason of its normal end."""


class WebSocketRefusedError(RequestError):
    """The client is not served; its WebSocket ends with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class SlowClientError(TardisMachineError, ConnectionResetError):
    """The peer accepted no data for too long."""


class WebSocket:
    """A connection that a handler sends chunks to."""

    def __init__(
        self,
        request: web.Request,
        settings: ServerSettings,
        on_slow: Callable[[], object] = lambda: None,
    ) -> None:
        self.request = request
        self.on_text: Callable[[str], None] | None = None
        self._settings = settings
        self._on_slow: Callable[[], object] | None = on_slow
        self._shows_life = True
        self._is_closing = False
        self._has_read_all = asyncio.Event()
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        self._socket = web.WebSocketResponse(
            autoping=False,
            autoclose=False,
            compress=False,
            max_msg_size=MAX_INCOMING_BYTES,
            protocols=[name.strip() for name in offered.split(",") if name.strip()][:1],
        )

    @property
    def is_closed(self) -> bool:
        """Say whether nothing can be sent any more."""
        return self._is_closing or self._socket.closed

    async def serve(self, handler: Handler) -> web.WebSocketResponse:
        """Run a handler until it ends or the peer leaves, whichever is first."""
        await self._socket.prepare(self.request)
        if self.request.transport is None:
            return self._socket
        self._transport = self.request.transport
        try:
            async with asyncio.TaskGroup() as tasks:
                work = tasks.create_task(self._run(handler), name="websocket work")
                watch = tasks.create_task(self._watch(), name="websocket heartbeat")
                await self._read()
                work.cancel()
                watch.cancel()
        except asyncio.CancelledError:
            # The server stops. Closing would wait until the peer has taken what is queued.
            self._abort()
            raise
        if self._is_closing:
            # Our close frame went out already; the library would send a second one.
            self._transport.close()
        return self._socket

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send each message as one text frame; wait while the peer is slow."""
        # Pings and pongs go out while this waits: a piece never ends inside a frame.
        count = max(1, PIECE_BYTES * len(messages) // (1 + sum(map(len, messages))))
        while messages:
            self._write(text_frames(messages[:count]))
            # Queued now: a peer that does not read costs that, and no second copy.
            messages = messages[count:]
            await self._drain()

    async def send_lines(self, lines: bytes) -> None:
        """Send each line of a chunk as one text frame; wait while the peer is slow."""
        while lines:
            end = lines.find(b"\n", PIECE_BYTES) + 1 or len(lines)
            self._write(line_frames(lines[:end]))
            # Queued now, as in `send`.
            lines = lines[end:]
            await self._drain()

    def note_slow(self) -> None:
        """Count a peer that is given up because it reads too slowly, once."""
        note, self._on_slow = self._on_slow, None
        if note is not None:
            note()

    async def close(self, code: int, reason: str) -> None:
        """Send a close frame; end the connection once the peer has read up to it.

        Ending it at once would lose what the peer has not read: its next ping would find nobody,
        and that resets a connection. Not every client answers a close frame, so a ping goes ahead
        of it, and the answer to that tells how far the peer has read. How much is queued does not:
        a TLS transport does not count what it has encrypted.
        """
        self._write(ping_frame(_LAST_PING) + close_frame(code, reason))
        self._is_closing = True
        await self._wait_patiently(self._has_read_all.wait())
        await asyncio.sleep(ANSWER_SECONDS)
        self._abort()

    def _write(self, frames: bytes) -> None:
        if self._transport.is_closing() or self.is_closed:
            raise ConnectionResetError("the client has disconnected")
        self._transport.write(frames)

    async def _run(self, handler: Handler) -> None:
        """Run the handler and end the connection as its outcome asks."""
        try:
            await self.close(*await self._outcome(handler))
        except ConnectionError as error:
            if isinstance(error, SlowClientError):
                self.note_slow()
            self._abort()

    async def _outcome(self, handler: Handler) -> tuple[int, str]:
        """Run the handler to its end; return the close code and the reason."""
        try:
            return WSCloseCode.OK, await handler(self)
        except WebSocketRefusedError as refusal:
            return refusal.code, refusal.reason
        except ConnectionError:
            raise
        except ServerBusyError as error:
            return WSCloseCode.TRY_AGAIN_LATER, str(error)
        except TardisMachineError as error:
            log.warning("websocket request failed", error=shortened(str(error), 2000))
            return WSCloseCode.INTERNAL_ERROR, f"Error: {error}"
        except Exception as error:
            log.exception("websocket request failed")
            return WSCloseCode.INTERNAL_ERROR, f"{type(error).__name__}: {error}"

    async def _read(self) -> None:
        """Take what the peer sends until it is gone."""
        with suppress(ConnectionError):
            async for message in self._socket:
                # A ping counts: a client that is busy with what it got may read none of ours.
                self._shows_life = True
                if message.type is WSMsgType.PING:
                    await self._socket.pong(message.data)
                elif message.type is WSMsgType.PONG and message.data == _LAST_PING:
                    self._has_read_all.set()
                elif message.type is WSMsgType.TEXT and self.on_text is not None:
                    self.on_text(message.data)

    async def _watch(self) -> None:
        """Ping the client at intervals, and disconnect one without traffic since the last ping."""
        taken = 0
        while True:
            await asyncio.sleep(self._settings.heartbeat_seconds)
            if self._is_closing:
                # It is not pinged any more, so that whatever it takes is what it has to read.
                before, taken = taken, self._taken_bytes()
                self._shows_life |= taken > before
            if not self._shows_life and not self._queued_bytes():
                self._abort()
                return
            self._shows_life = False
            if not self._is_closing:
                with suppress(ConnectionError):
                    self._write(ping_frame(b""))

    async def _drain(self) -> None:
        """Wait until the queue has room; drop a peer that takes nothing from it for long."""
        if not self.request.protocol.writing_paused:
            return
        await self._wait_patiently(self.request.writer.drain())

    async def _wait_patiently(self, awaited: Coroutine[Any, Any, object]) -> None:
        """Wait as long as the peer takes data, however slowly."""
        # A task, because cancelling the wait itself would end it for every other who waits.
        task = asyncio.create_task(awaited)
        try:
            await self._wait_while_taking(task)
        finally:
            task.cancel()

    async def _wait_while_taking(self, task: asyncio.Task[object]) -> None:
        silent, taken = 0, self._taken_bytes()
        pause_seconds = self._settings.slow_client_seconds / CHECKS
        while not (await asyncio.wait([task], timeout=pause_seconds))[0]:
            before, taken = taken, self._taken_bytes()
            silent = 0 if taken > before else silent + 1
            if silent >= CHECKS:
                raise SlowClientError("the client read no data for slow-client-seconds")
        task.result()

    def _taken_bytes(self) -> int:
        """Return a figure that grows whenever the peer takes data."""
        acknowledged = acknowledged_bytes(self._transport)
        return -self._queued_bytes() if acknowledged is None else acknowledged

    def _queued_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def _abort(self) -> None:
        self._transport.abort()
