"""Connections of clients: late, half-closed, malformed."""

import asyncio
from typing import Any

from aiohttp import HttpVersion11, web

from tardis_machine.model.texts import shortened
from tardis_machine.server.guards.arrivals import Arrivals
from tardis_machine.server.guards.bodies import IS_CUT
from tardis_machine.server.guards.masking import MaskedFrames
from tardis_machine.server.guards.sockets import (
    is_reset,
    limit_reading,
    limit_silence,
    notice_absence,
)
from tardis_machine.server.settings import ServerSettings
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.replay_metrics import ServerMetrics

log = get_logger(__name__)

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
"""Ignored by every client of HTTP/1.1, also by one that did not ask for it."""

HALF_CLOSED_SECONDS = 1.0
"""How often something is written to a client that has closed its side, before the answer begins,
and how often it is looked at from then on."""

ZERO = b"0"
"""Between two chunks it is the first digit of the size of the next one, or of the end."""

ZERO_LOOKS = frozenset(1 << number for number in range(8))
"""Looks in a row at a client without a new chunk that write a zero: after 1, 2, 4 … 128 s. Clients
read sizes of 16 digits, and those of our chunks have six at most."""

KEEP_ALIVE_SECONDS = 75.0
"""How long a connection without a request stays open after an answer."""


class Connection(web.RequestHandler):
    """A connection to one of the ports."""

    def __init__(
        self,
        server: web.Server,
        settings: ServerSettings,
        metrics: ServerMetrics,
        arrivals: Arrivals,
        *,
        loop: asyncio.AbstractEventLoop,
        **options: Any,
    ) -> None:
        super().__init__(server, loop=loop, keepalive_timeout=KEEP_ALIVE_SECONDS, **options)
        self._settings = settings
        self._metrics = metrics
        self._arrival = arrivals.begin()
        self._first_request: asyncio.TimerHandle | None = None
        self._half_closed: asyncio.TimerHandle | None = None
        self._is_websocket = False
        self._is_between_chunks = False
        self._request: web.BaseRequest | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        limit_reading(transport)
        # Also after the answer, while what is left of it is queued.
        limit_silence(transport, self._settings.slow_client_seconds)
        seconds = self._settings.request_timeout_seconds
        self._first_request = self._loop.call_later(seconds, self.force_close)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop waiting."""
        for timer in (self._first_request, self._half_closed):
            if timer is not None:
                timer.cancel()
        self._request = None
        self._arrival.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what arrived, unless unfinished requests are too much already."""
        if self._is_websocket or self._arrival.add(len(data)):
            super().data_received(data)
        else:
            self._metrics.busy_refusals.inc()
            self.force_close()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Answer a client that has closed its side.

        One that is gone looks the same until something is written to it, so that is done. An answer
        that has not begun is not waited for longer than a request; a busy machine may need most of
        that time.
        """
        is_idle = self._waiter is not None and not self._waiter.done()
        if self._is_websocket or is_idle or self.ssl_context is not None:
            return None
        self.close()
        self._end_body()
        if self.transport is not None:
            notice_absence(self.transport)
        until = self._loop.time() + self._settings.request_timeout_seconds
        self._wait_half_closed(HalfClosed(until))
        return True

    def set_parser(self, parser: Any, data_received_cb: Any = None) -> None:
        """Read WebSocket frames from now on."""
        self._is_websocket = True
        checked: Any = MaskedFrames(parser, self.transport)
        super().set_parser(checked, data_received_cb)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP request; the log of a server in a network would be full of it."""
        self._metrics.malformed_requests.inc()
        reason = shortened(message or str(exc))
        log.debug("malformed request", client=request.remote, reason=reason)
        if request.writer.output_size > 0:
            raise ConnectionResetError("the response has begun")
        response = web.json_response({"message": f"Malformed request: {reason}"}, status=status)
        response.force_close()
        return response

    def request_arrived(self, request: web.BaseRequest) -> None:
        """Stop waiting for the first request."""
        self._request = request
        self._is_between_chunks = False
        if self._manager is not None:
            # Nobody reads it. A large number is an object that outlives the many it lies among.
            self._manager.requests_count = 0
        if self._half_closed is not None:
            self._end_body()
        if not request.body_exists:
            self.request_complete()
        if self._first_request is not None:
            self._first_request.cancel()
            self._first_request = None

    def request_complete(self) -> None:
        """Count what arrives from now on as the next request."""
        self._arrival.clear()

    def chunks_follow(self, *, more: bool) -> None:
        """Note that an answer has begun, or that it ends; a client of HTTP/1.0 gets no chunks."""
        request = self._request
        self._is_between_chunks = more and request is not None and request.version >= HttpVersion11

    def _end_body(self) -> None:
        """Stop waiting for the rest of a body that cannot come any more."""
        if self._request is not None and not self._request.content.is_eof():
            self._request[IS_CUT] = True
            self._request.content.feed_eof()

    def _wait_half_closed(self, client: "HalfClosed") -> None:
        seconds = min(HALF_CLOSED_SECONDS, self._settings.request_timeout_seconds)
        self._half_closed = self._loop.call_later(seconds, self._ask_half_closed, client)

    def _ask_half_closed(self, client: "HalfClosed") -> None:
        """Find out whether the client is gone: it resets the connection then."""
        transport, request = self.transport, self._request
        if transport is None:
            return
        written_bytes = 0 if request is None else request.writer.output_size
        if is_reset(transport):
            transport.abort()
            return
        if written_bytes:
            wants_zero = client.look(written_bytes) and self._is_between_chunks
            # What is queued for a client finds out as well.
            if wants_zero and not transport.get_write_buffer_size():
                transport.write(ZERO)
        elif self._loop.time() >= client.until:
            self.force_close()
            return
        elif request is not None and request.version >= HttpVersion11:
            transport.write(CONTINUE)
        self._wait_half_closed(client)


class HalfClosed:
    """How long a client that has closed its side has been waiting."""

    def __init__(self, until: float) -> None:
        """Let it wait until then for an answer to begin."""
        self.until = until
        self._written_bytes = 0
        self._looks = 0

    def look(self, written_bytes: int) -> bool:
        """Look at a client that has got so much; return whether to find out if it is there."""
        if written_bytes != self._written_bytes:
            self._written_bytes, self._looks = written_bytes, 0
        self._looks += 1
        return self._looks in ZERO_LOOKS


def note_arrival(request: web.Request) -> None:
    """Tell the connection of a request that it has arrived."""
    if isinstance(request.protocol, Connection):
        request.protocol.request_arrived(request)


def note_completion(request: web.Request) -> None:
    """Tell the connection of a request that its body has arrived."""
    if isinstance(request.protocol, Connection):
        request.protocol.request_complete()


def note_chunks(request: web.Request, *, more: bool) -> None:
    """Tell the connection of a request whether more of its answer follows, or the end."""
    if isinstance(request.protocol, Connection):
        request.protocol.chunks_follow(more=more)
