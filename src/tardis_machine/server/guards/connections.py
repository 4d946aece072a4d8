"""Connections of clients: late, half-closed, malformed."""

import asyncio
from typing import Any

from aiohttp import HttpVersion11, web

from tardis_machine.model.texts import shortened
from tardis_machine.server.guards.arrivals import Arrivals
from tardis_machine.server.guards.bodies import IS_CUT
from tardis_machine.server.guards.masking import MaskedFrames
from tardis_machine.server.guards.sockets import limit_reading, limit_silence
from tardis_machine.server.settings import ServerSettings
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.replay_metrics import ServerMetrics

log = get_logger(__name__)

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
"""Ignored by every client of HTTP/1.1, also by one that did not ask for it."""

HALF_CLOSED_SECONDS = 1.0
"""How often something is written to a client that has closed its side, before the answer begins."""

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
        """Answer a client that has closed its side before the answer began.

        One that is gone looks the same until something is written to it, so that is done. It is not
        waited for longer than for a request; a busy machine may need most of that time.
        """
        is_idle = self._waiter is not None and not self._waiter.done()
        if self._is_websocket or is_idle or self.ssl_context is not None:
            return None
        self.close()
        self._end_body()
        self._wait_half_closed(self._loop.time() + self._settings.request_timeout_seconds)
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

    def _end_body(self) -> None:
        """Stop waiting for the rest of a body that cannot come any more."""
        if self._request is not None and not self._request.content.is_eof():
            self._request[IS_CUT] = True
            self._request.content.feed_eof()

    def _wait_half_closed(self, until: float) -> None:
        seconds = min(HALF_CLOSED_SECONDS, self._settings.request_timeout_seconds)
        self._half_closed = self._loop.call_later(seconds, self._ask_half_closed, until)

    def _ask_half_closed(self, until: float) -> None:
        """Find out whether the client is gone: it resets the connection then."""
        if self._request is not None and self._request.writer.output_size > 0:
            return
        if self._loop.time() >= until:
            self.force_close()
            return
        is_told = self._request is not None and self._request.version >= HttpVersion11
        if is_told and self.transport is not None:
            self.transport.write(CONTINUE)
        self._wait_half_closed(until)


def note_arrival(request: web.Request) -> None:
    """Tell the connection of a request that it has arrived."""
    if isinstance(request.protocol, Connection):
        request.protocol.request_arrived(request)


def note_completion(request: web.Request) -> None:
    """Tell the connection of a request that its body has arrived."""
    if isinstance(request.protocol, Connection):
        request.protocol.request_complete()
