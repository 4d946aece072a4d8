"""`/replay` and `/replay-normalized`: NDJSON over HTTP."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

import msgspec
from aiohttp import web

from tardis_machine.model.errors import TardisMachineError, UpstreamStatusError
from tardis_machine.model.texts import shortened
from tardis_machine.server.guards.admission import ServerBusyError, busy_response
from tardis_machine.server.guards.bodies import BodyError, read_body
from tardis_machine.server.guards.connections import note_chunks, note_completion
from tardis_machine.server.guards.limits import (
    RequestTooLargeError,
    check_raw_size,
    raw_symbols_of,
    streams_of,
    symbols_of,
)
from tardis_machine.server.options import (
    OptionsError,
    parse_normalized_options,
    parse_raw_options,
)
from tardis_machine.server.services import Services
from tardis_machine.session.plan import plan_raw
from tardis_machine.session.raw import http_lines
from tardis_machine.session.response import client_body
from tardis_machine.session.run import client_lines
from tardis_machine.session.silent_symbols import SilentSymbols
from tardis_machine.telemetry.loggers import get_logger

JSON_STREAM = "application/x-json-stream"
NORMALIZED_ROUTE = "/replay-normalized"
PIECE_BYTES = 1024 * 1024
MAX_ERROR_CHARACTERS = 8192
_UNSAFE = re.compile(r'[\x00-\x1f\x7f"\\]')

log = get_logger(__name__)

Chunks = AsyncGenerator[bytes, None]


class ErrorBody(msgspec.Struct, rename="camel", omit_defaults=True):
    """What a failed request is answered with."""

    response_text: str | None = None
    message: str = ""
    url: str | None = None


async def replay(request: web.Request, services: Services) -> web.StreamResponse:
    """Answer `/replay`."""
    return await _answer(request, services, raw_chunks)


async def replay_normalized(request: web.Request, services: Services) -> web.StreamResponse:
    """Answer `/replay-normalized`."""
    return await _answer(request, services, normalized_chunks)


async def raw_chunks(
    options: str | bytes | None, services: Services, _warnings: list[str]
) -> Chunks:
    """Yield the body of a raw response."""
    request = parse_raw_options(options)
    check_raw_size(request, services.settings)
    streams = streams_of(symbols=raw_symbols_of(request), size_bytes=len(options or b""))
    plan = plan_raw(request)
    # What has a name here is held for as long as the client takes.
    del options, request
    async with aclosing(client_lines(plan, services.session)) as chunks:
        with (
            services.admission.admit_more(streams),
            services.meter("/replay", [plan.exchange.id]) as meter,
        ):
            async for lines in chunks:
                body = http_lines(lines)
                meter.sent(len(lines), len(body))
                lines.clear()
                handed_over = [body]
                del body
                yield handed_over.pop()


async def normalized_chunks(
    options: str | bytes | None, services: Services, warnings: list[str]
) -> Chunks:
    """Yield the body of a normalized response; what is doubtful about it goes to `warnings`."""
    requests = parse_normalized_options(options)
    plan = services.plan(requests)
    streams = streams_of(
        entries=len(plan.entries), symbols=symbols_of(requests), size_bytes=len(options or b"")
    )
    del options, requests
    warnings += [f"unknown data type {name} ignored" for name in plan.ignored_types]
    warnings += [f"data type {name} asks for nothing" for name in plan.empty_types]
    with (
        services.admission.admit_more(streams),
        services.meter(NORMALIZED_ROUTE, plan.exchanges) as meter,
    ):
        copy = services.copy(plan, "http", NORMALIZED_ROUTE)

        def tell(silent: SilentSymbols) -> None:
            # Known at the end, so that only the header of an empty response has it.
            warnings.append(str(silent))

        async with aclosing(client_body(plan, services.session, copy, tell)) as chunks:
            async for count, body in chunks:
                meter.sent(count, len(body))
                handed_over = [body]
                del body
                yield handed_over.pop()


async def _answer(
    request: web.Request,
    services: Services,
    chunks_of: Callable[[str | bytes | None, Services, list[str]], Chunks],
) -> web.StreamResponse:
    """Answer the `options` parameter, or the body of a POST."""
    try:
        with services.admission.admit(streams_of(size_bytes=len(request.raw_path))):
            await services.begin(request)
            warnings: list[str] = []
            chunks = chunks_of(await _options(request, services), services, warnings)
            return await _respond(request, chunks, services, warnings)
    except (BodyError, ServerBusyError) as error:
        return error_response(error)


async def _options(request: web.Request, services: Services) -> str | bytes | None:
    if request.method != "POST":
        return request.query.get("options")
    body = await read_body(request, services.settings)
    note_completion(request)
    return body


async def _respond(
    request: web.Request, chunks: Chunks, services: Services, warnings: list[str]
) -> web.StreamResponse:
    """Stream chunks; a failure before the first one becomes an error response."""
    async with aclosing(chunks):
        try:
            first = [await anext(chunks)]
        except StopAsyncIteration:
            return web.Response(headers=_headers(warnings))
        except Exception as error:
            return error_response(error)
        response = web.StreamResponse(headers=_headers(warnings))
        await response.prepare(request)
        note_chunks(request, more=True)
        async with aclosing(_with_failure(first, chunks)) as body:
            async for chunk in body:
                async with _patience(request, services):
                    await _write(response, chunk)
                    # Queued now: a client that does not read costs that, and no second copy.
                    del chunk
                    await _drain(request)
        note_chunks(request, more=False)
        async with _patience(request, services):
            await response.write_eof()
        return response


def _headers(warnings: list[str]) -> dict[str, str]:
    headers = {"Content-Type": JSON_STREAM}
    if warnings:
        text = shortened("; ".join(warnings)).encode("ascii", "replace").decode()
        headers["Warning"] = f'199 tardis-machine "{_UNSAFE.sub("?", text)}"'
    return headers


async def _with_failure(first: list[bytes], chunks: Chunks) -> Chunks:
    """Yield all chunks; a failure becomes the last one, because the status is gone."""
    # Taken out of the list: what has a name here is held while the client reads nothing.
    yield first.pop()
    try:
        while True:
            yield await anext(chunks)
    except StopAsyncIteration:
        return
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


async def _drain(request: web.Request) -> None:
    """Wait until the queue has room; the library waits only after every 64 KiB."""
    if request.protocol.writing_paused:
        await request.writer.drain()


def error_response(error: Exception) -> web.Response:
    """Answer a request that failed."""
    if isinstance(error, ServerBusyError):
        return busy_response(error)
    response = web.Response(status=_status(error), body=error_body(error))
    if not isinstance(error, OptionsError):
        response.headers["Content-Type"] = JSON_STREAM
    return response


def _status(error: Exception) -> int:
    """Return the status that says what is wrong; most errors are 500, as the API defines it."""
    if isinstance(error, UpstreamStatusError | BodyError):
        return error.status
    return 413 if isinstance(error, RequestTooLargeError) else 500


def error_body(error: Exception) -> bytes:
    """Write an error as clients get it, and log it."""
    if isinstance(error, TardisMachineError):
        log.warning("request failed", error=shortened(str(error), MAX_ERROR_CHARACTERS))
    else:
        log.error("request failed", exc_info=error)
    text = shortened(str(error), MAX_ERROR_CHARACTERS)
    body = ErrorBody(message=text or type(error).__name__)
    if isinstance(error, UpstreamStatusError):
        body.response_text = shortened(error.response_text, MAX_ERROR_CHARACTERS)
        body.url = shortened(error.url, MAX_ERROR_CHARACTERS)
    return msgspec.json.encode(body)
