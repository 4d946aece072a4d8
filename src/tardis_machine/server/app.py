"""Routes of both ports."""

from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import WSCloseCode, web

from tardis_machine.model.texts import shortened
from tardis_machine.server import http, status, ws
from tardis_machine.server.guards.access import Access, allow_page
from tardis_machine.server.guards.admission import ServerBusyError, busy_response
from tardis_machine.server.guards.connections import note_arrival
from tardis_machine.server.guards.limits import streams_of
from tardis_machine.server.native import ReplaySessions
from tardis_machine.server.services import Services
from tardis_machine.server.websocket import Handler, WebSocket, WebSocketRefusedError

WS_ROUTES = ("/ws-replay", "/ws-replay-normalized")

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def http_application(services: Services) -> web.Application:
    """Build the application of the HTTP port."""
    access = Access(services.settings)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = access.refusal(request) or await _answer_http(request, services)
        services.metrics.server.requests.labels(_known(request.path), response.status).inc()
        return response

    app = web.Application()
    app.on_response_prepare.append(allow_page)
    app.router.add_route("*", "/{path:.*}", _guarded(answer))
    return app


def ws_application(services: Services) -> web.Application:
    """Build the application of the WebSocket port."""
    access = Access(services.settings)
    sessions = ReplaySessions()
    handlers: dict[str, Handler] = {
        "/ws-replay": partial(sessions.serve, services=services),
        "/ws-replay-normalized": partial(ws.replay_normalized, services=services),
        "/ws-stream-normalized": partial(ws.stream_normalized, services=services),
    }

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() != "websocket":
            text = f"This port speaks WebSocket: {', '.join(handlers)}."
            return web.json_response({"message": text}, status=426)
        if refusal := access.refusal(request):
            return refusal
        handler = handlers.get(request.path.lower(), _unknown_path)
        try:
            with services.admission.admit(streams_of(size_bytes=len(request.raw_path))):
                await services.begin(request)
                return await _serve_websocket(request, services, handler)
        except ServerBusyError as error:
            return busy_response(error)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _guarded(answer))
    return app


def _guarded(answer: Answer) -> Answer:
    """Answer failures that nobody expected, and log them."""

    async def answer_all(request: web.Request) -> web.StreamResponse:
        note_arrival(request)
        try:
            return await answer(request)
        except (ConnectionError, web.HTTPException):
            # The client has left, or the library refuses its handshake.
            raise
        except Exception as error:
            response = http.error_response(error)
            if request.writer.output_size > 0:
                raise ConnectionResetError("the response has begun") from error
            return response

    return answer_all


_METHODS = {
    "/replay": ("GET", "POST"),
    "/replay-normalized": ("GET", "POST"),
    "/health-check": ("GET", "HEAD"),
    "/metrics": ("GET", "HEAD"),
}
_HTTP_ROUTES = tuple(_METHODS)


async def _answer_http(request: web.Request, services: Services) -> web.StreamResponse:
    path = request.path.removesuffix("/")
    if path not in _HTTP_ROUTES:
        return _not_found(request, services)
    if request.method not in _METHODS[path]:
        return _wrong_method(path)
    if path == "/health-check":
        return status.health_check(services)
    if path == "/metrics":
        return status.metrics(services)
    if path == "/replay":
        return await http.replay(request, services)
    return await http.replay_normalized(request, services)


def _not_found(request: web.Request, services: Services) -> web.Response:
    text = (
        f"Nothing is served at {shortened(request.path)!r}. HTTP: {', '.join(_HTTP_ROUTES)}. "
        f"WebSocket, port {services.settings.port + 1}: {', '.join(WS_ROUTES)}."
    )
    return web.json_response({"message": text}, status=404)


def _wrong_method(path: str) -> web.Response:
    allowed = ", ".join(_METHODS[path])
    text = f"{path} answers {allowed}."
    return web.json_response({"message": text}, status=405, headers={"Allow": allowed})


async def _serve_websocket(
    request: web.Request, services: Services, handler: Handler
) -> web.StreamResponse:
    slow_clients = services.metrics.server.slow_clients

    def count_slow() -> None:
        slow_clients.labels(request.path.lower()).inc()

    return await WebSocket(request, services.settings, count_slow).serve(handler)


async def _unknown_path(_: WebSocket) -> str:
    raise WebSocketRefusedError(WSCloseCode.POLICY_VIOLATION, "")


def _known(path: str) -> str:
    """Return a path as a metric label; unknown ones must not make new series."""
    route = path.removesuffix("/")
    return route if route in _HTTP_ROUTES else "other"
