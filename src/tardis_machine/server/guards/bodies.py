"""Request bodies: bounded in size, also after decompression, and in time."""

import asyncio
import zlib

from aiohttp import web

from tardis_machine.model.errors import RequestError
from tardis_machine.server.settings import ServerSettings

_GZIP_BITS = 16 + zlib.MAX_WBITS
_ZLIB_METHOD = 8

IS_CUT = web.RequestKey("is_cut", bool)
"""Set on a request whose client has closed its side before the body was complete."""


class BodyError(RequestError):
    """The body of a request cannot be read; `status` is what the client is answered."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def read_body(request: web.Request, settings: ServerSettings) -> bytes:
    """Return the decompressed body of a request."""
    body = b""
    try:
        async with asyncio.timeout(settings.request_timeout_seconds):
            while part := await request.content.readany():
                body += part
                _check_size(len(body), settings)
    except TimeoutError:
        raise BodyError(
            408,
            "The body did not arrive in time: "
            f"request-timeout-seconds is {settings.request_timeout_seconds:g}.",
        ) from None
    if request.get(IS_CUT):
        raise BodyError(400, "The body ends too early: the client has closed its side.")
    return _decompressed(body, request.headers.get("Content-Encoding", ""), settings)


def _decompressed(body: bytes, encoding: str, settings: ServerSettings) -> bytes:
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip" | "x-gzip":
            bits = _GZIP_BITS
        case "deflate":
            # Some clients send the bare format; the wrapped one begins with its method.
            bits = zlib.MAX_WBITS if body[:1] and body[0] & 15 == _ZLIB_METHOD else -zlib.MAX_WBITS
        case _:
            raise BodyError(
                415,
                f"Content-Encoding {encoding[:40]!r} is not supported. "
                "Please send the body as gzip, as deflate or as it is.",
            )
    decompressor = zlib.decompressobj(bits)
    try:
        content = decompressor.decompress(body, settings.max_body_bytes + 1)
    except zlib.error as error:
        raise BodyError(400, f"The body is not valid {encoding}: {error}.") from error
    _check_size(len(content), settings)
    if not decompressor.eof:
        raise BodyError(400, f"The body is not valid {encoding}: it ends too early.")
    return content


def _check_size(size_bytes: int, settings: ServerSettings) -> None:
    if size_bytes > settings.max_body_bytes:
        raise BodyError(
            413,
            f"The body has more than {settings.max_body_bytes} bytes. Please send several "
            "requests, or raise --max-body-bytes of the server.",
        )
