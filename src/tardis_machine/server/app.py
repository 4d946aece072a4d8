"""Routes of both ports."""

import hmac
from functools import partial

from aiohttp import WSCloseCode, web

from tardis_machine.server import http, status, ws
from tardis_machine.server.native import ReplaySessions
from tardis_machine.server.services import Services
from tardis_machine.server.websocket import Handler, WebSocket, WebSocketRefusedError


def http_application(services: Services) -> web.Application:
    """Build the application of the HTTP port."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await _answer_http(request, services)
        services.metrics.server.requests.labels(_known(request.path), response.status).inc()
        return response

    app = web.Application(client_max_size=services.settings.max_body_bytes)
    app.router.add_route("*", "/{path:.*}", answer)
    return app


def ws_application(services: Services) -> web.Application:
    """Build the application of the WebSocket port."""
    sessions = ReplaySessions()
    handlers: dict[str, Handler] = {
        "/ws-replay": partial(sessions.serve, services=services),
        "/ws-replay-normalized": partial(ws.replay_normalized, services=services),
    }

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return web.Response(status=426)
        if not _is_allowed(request, services):
            return _unauthorized()
        handler = handlers.get(request.path.lower(), _unknown_path)
        websocket = WebSocket(request, services.settings)
        try:
            return await websocket.serve(handler)
        finally:
            if websocket.was_too_slow:
                services.metrics.server.slow_clients.labels(request.path.lower()).inc()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    return app


_HTTP_ROUTES = ("/replay", "/replay-normalized", "/health-check", "/metrics")


async def _answer_http(request: web.Request, services: Services) -> web.StreamResponse:
    path = request.path.removesuffix("/")
    if path == "/health-check" and request.method == "GET":
        return status.health_check(services)
    if path not in _HTTP_ROUTES or request.method not in ("GET", "POST"):
        return web.Response(status=404)
    if not _is_allowed(request, services):
        return _unauthorized()
    if path == "/replay":
        return await http.replay(request, services)
    if path == "/replay-normalized":
        return await http.replay_normalized(request, services)
    return status.metrics(services)


async def _unknown_path(_: WebSocket) -> str:
    raise WebSocketRefusedError(WSCloseCode.POLICY_VIOLATION, "")


def _is_allowed(request: web.Request, services: Services) -> bool:
    """Check the client's token, if the server asks for one."""
    token = services.settings.token
    if token is None:
        return True
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    given = given or request.query.get("token", "")
    return hmac.compare_digest(given.encode(), token.reveal().encode())


def _unauthorized() -> web.Response:
    text = "This server asks for a token: send `Authorization: Bearer …` or `?token=…`."
    return web.json_response({"message": text}, status=401)


def _known(path: str) -> str:
    """Return a path as a metric label; unknown ones must not make new series."""
    route = path.removesuffix("/")
    return route if route in _HTTP_ROUTES else "other"
