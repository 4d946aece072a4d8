"""`/replay` and `/replay-normalized`: NDJSON over HTTP."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import msgspec
from aiohttp import web

from tardis_machine.model.errors import TardisMachineError, UpstreamStatusError
from tardis_machine.server.options import (
    OptionsError,
    parse_normalized_options,
    parse_raw_options,
)
from tardis_machine.server.services import Services
from tardis_machine.session.plan import plan_normalized, plan_raw
from tardis_machine.session.raw import http_lines
from tardis_machine.session.response import client_body
from tardis_machine.session.run import client_lines
from tardis_machine.telemetry.loggers import get_logger

JSON_STREAM = "application/x-json-stream"
NORMALIZED_ROUTE = "/replay-normalized"
PIECE_BYTES = 1024 * 1024

log = get_logger(__name__)

Chunks = AsyncGenerator[bytes, None]


class ErrorBody(msgspec.Struct, rename="camel", omit_defaults=True):
    """What a failed request is answered with."""

    response_text: str | None = None
    message: str = ""
    url: str | None = None


async def replay(request: web.Request, services: Services) -> web.StreamResponse:
    """Answer `/replay`."""
    options = await _options_text(request)
    return await _respond(request, raw_chunks(options, services), services)


async def replay_normalized(request: web.Request, services: Services) -> web.StreamResponse:
    """Answer `/replay-normalized`."""
    options = await _options_text(request)
    return await _respond(request, normalized_chunks(options, services), services)


async def raw_chunks(options: str | bytes | None, services: Services) -> Chunks:
    """Yield the body of a raw response."""
    plan = plan_raw(parse_raw_options(options))
    async with aclosing(client_lines(plan, services.session)) as chunks:
        with services.meter("/replay", [plan.exchange.id]) as meter:
            async for lines in chunks:
                body = http_lines(lines)
                meter.sent(len(lines), len(body))
                yield body


async def normalized_chunks(options: str | bytes | None, services: Services) -> Chunks:
    """Yield the body of a normalized response."""
    plan = plan_normalized(parse_normalized_options(options), services.clock())
    services.warn_of_ignored(plan)
    copy = services.copy("http", NORMALIZED_ROUTE)
    async with aclosing(client_body(plan, services.session, copy)) as chunks:
        with services.meter(NORMALIZED_ROUTE, plan.exchanges) as meter:
            async for count, body in chunks:
                meter.sent(count, len(body))
                yield body


async def _options_text(request: web.Request) -> str | bytes | None:
    """Return the `options` parameter, or the body of a POST."""
    if request.method == "POST":
        return await request.read()
    return request.query.get("options")


async def _respond(request: web.Request, chunks: Chunks, services: Services) -> web.StreamResponse:
    """Stream chunks; a failure before the first one becomes an error response."""
    async with aclosing(chunks):
        try:
            first = await anext(chunks, None)
        except Exception as error:
            return _error_response(error)
        if first is None:
            return web.Response(headers={"Content-Type": JSON_STREAM})
        response = web.StreamResponse(headers={"Content-Type": JSON_STREAM})
        await response.prepare(request)
        async with aclosing(_with_failure(first, chunks)) as body:
            async for chunk in body:
                async with _patience(request, services):
                    await _write(response, chunk)
        async with _patience(request, services):
            await response.write_eof()
        return response


async def _with_failure(first: bytes, chunks: Chunks) -> Chunks:
    """Yield all chunks; a failure becomes the last one, because the status is gone."""
    yield first
    try:
        async for chunk in chunks:
            yield chunk
    except Exception as error:
        # Clients find a last line without a type.
        yield error_body(error)


@asynccontextmanager
async def _patience(request: web.Request, services: Services) -> AsyncIterator[None]:
    """Disconnect a client that does not read the response."""
    try:
        async with asyncio.timeout(services.settings.slow_client_seconds):
            yield
    except TimeoutError:
        services.metrics.server.slow_clients.labels(request.path).inc()
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the client read no data for slow-client-seconds") from None


async def _write(response: web.StreamResponse, chunk: bytes) -> None:
    """Write a chunk in pieces that a socket takes at once.

    asyncio moves what a socket does not take to the front of a buffer after every send; for a
    chunk of megabytes that costs more than making it.
    """
    view = memoryview(chunk)
    for start in range(0, len(chunk), PIECE_BYTES):
        await response.write(view[start : start + PIECE_BYTES])


def _error_response(error: Exception) -> web.Response:
    status = error.status if isinstance(error, UpstreamStatusError) else 500
    response = web.Response(status=status, body=error_body(error))
    if not isinstance(error, OptionsError):
        response.headers["Content-Type"] = JSON_STREAM
    return response


def error_body(error: Exception) -> bytes:
    """Write an error as clients get it, and log it."""
    if isinstance(error, TardisMachineError):
        log.warning("request failed", error=str(error))
    else:
        log.error("request failed", exc_info=error)
    body = ErrorBody(message=str(error) or type(error).__name__)
    if isinstance(error, UpstreamStatusError):
        body.response_text, body.url = error.response_text, error.url
    return msgspec.json.encode(body)
