"""A data API of our own: real HTTP, slices from memory or from a cache folder, faults on demand.

`python -m tests.servers.data_api --dir CACHE --port 0` serves the whole-feed slices of a cache
folder, such as `tardis-machine simulate` writes, straight from disk and prints its port. Filters
are recorded and otherwise ignored, so every filter gets the whole feed.
"""

import argparse
import asyncio
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import zstandard
from aiohttp import web

from tardis_machine.model.time import MINUTE_US, ms_text, parse_us
from tardis_machine.sources.cache import SliceFile, SliceFolder

Slices = Mapping[tuple[str, str], bytes]
"""Recorded lines by exchange and minute (`2024-03-01T00:05`)."""


@dataclass(frozen=True)
class Ask:
    """One request as the stub received it."""

    exchange: str
    start: str
    offset: int
    minutes: int
    compression: str
    filters: list[dict[str, Any]] | None
    headers: Mapping[str, str]
    path: str

    @property
    def start_us(self) -> int:
        return parse_us(self.start) + self.offset * MINUTE_US


@dataclass
class Fault:
    """What goes wrong, for which offset (None: any), and how often (None: always)."""

    offset: int | None = None
    times: int | None = 1
    status: int | None = None
    body: str | bytes = ""
    headers: dict[str, str] = field(default_factory=dict)
    redirect_to: str | None = None
    delay_seconds: float = 0.0
    stalls: bool = False
    """Send half of the body, then nothing more until the client is gone."""
    is_cut: bool = False
    """Promise the whole body and close the connection after half of it."""
    encoding: str | None = None
    replaces_body: bytes | None = None

    def applies_to(self, ask: Ask) -> bool:
        return self.times != 0 and self.offset in (None, ask.offset)


@dataclass
class DataApiStub:
    """Serves `/v1/data-feeds/{exchange}` on a free port of the loopback interface."""

    slices: Slices = field(default_factory=dict)
    folder: Path | None = None
    suggested_minutes: int = 1
    port: int = 0
    omits_slice_size: bool = False
    closes_connections: bool = False
    """Close each connection after one response, for tests that count what is left open."""
    faults: list[Fault] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    in_flight: int = 0
    max_in_flight: int = 0

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/v1/data-feeds/{exchange}", self._count_and_serve)
        # A client that goes away ends its handler, so that a stall does not outlive it.
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def offsets(self) -> list[int]:
        """The offsets asked for so far, in order of arrival."""
        return [ask.offset for ask in self.asks]

    async def _count_and_serve(self, request: web.Request) -> web.StreamResponse:
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            response = await self._serve(request)
        finally:
            self.in_flight -= 1
        if self.closes_connections:
            response.force_close()
        return response

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        ask = _read_ask(request)
        self.asks.append(ask)
        fault = next((fault for fault in self.faults if fault.applies_to(ask)), None)
        if fault is None:
            return self._slice_response(ask)
        if fault.times is not None:
            fault.times -= 1
        return await self._fail(request, ask, fault)

    async def _fail(self, request: web.Request, ask: Ask, fault: Fault) -> web.StreamResponse:
        await asyncio.sleep(fault.delay_seconds)
        if fault.redirect_to:
            location = fault.redirect_to + str(request.rel_url)
            return web.Response(status=302, headers={"Location": location})
        if fault.status is not None:
            body = fault.body.encode() if isinstance(fault.body, str) else fault.body
            return web.Response(status=fault.status, body=body, headers=fault.headers)
        data, encoding = self._body(ask)
        data = data if fault.replaces_body is None else fault.replaces_body
        headers = self._headers(ask, fault.encoding or encoding) | fault.headers
        if fault.stalls or fault.is_cut:
            return await _send_half(request, data, headers, stalls=fault.stalls)
        return web.Response(body=data, headers=headers)

    def _slice_response(self, ask: Ask) -> web.StreamResponse:
        files = self._files(ask)
        if len(files) == 1:
            encoding = "zstd" if files[0].path.suffix == ".zst" else "gzip"
            headers = self._headers(ask, encoding)
            return web.FileResponse(files[0].path, headers=headers)
        data, encoding = self._body(ask)
        return web.Response(body=data, headers=self._headers(ask, encoding))

    def _headers(self, ask: Ask, encoding: str) -> dict[str, str]:
        headers = {
            "Content-Encoding": encoding,
            "x-slice-size": str(ask.minutes),
            "x-suggested-slice-size": str(self.suggested_minutes),
        }
        if self.omits_slice_size:
            del headers["x-slice-size"]
        return headers

    def _body(self, ask: Ask) -> tuple[bytes, str]:
        """Return a slice with one zstd frame or gzip member per minute."""
        files = self._files(ask)
        if files:
            encoding = "zstd" if files[0].path.suffix == ".zst" else "gzip"
            return b"".join(file.path.read_bytes() for file in files), encoding
        encoding = "gzip" if ask.compression == "gzip" else "zstd"
        compress = gzip.compress if encoding == "gzip" else zstandard.ZstdCompressor().compress
        minutes = (ask.start_us + number * MINUTE_US for number in range(ask.minutes))
        lines = (self.slices.get((ask.exchange, minute_text(us)), b"") for us in minutes)
        return b"".join(map(compress, lines)), encoding

    def _files(self, ask: Ask) -> list[SliceFile]:
        if self.folder is None:
            return []
        feed = SliceFolder(self.folder, ask.exchange, ())
        minutes = (ask.start_us + number * MINUTE_US for number in range(ask.minutes))
        return [file for us in minutes if (file := feed.find_exact(us, 1))]


def minute_text(us: int) -> str:
    return ms_text(us // 1000)[:16]


def _read_ask(request: web.Request) -> Ask:
    query = request.query
    filters = query.get("filters")
    return Ask(
        exchange=request.match_info["exchange"],
        start=query["from"],
        offset=int(query["offset"]),
        minutes=int(query.get("sliceSize", "1")),
        compression=query.get("compression", "gzip"),
        filters=None if filters is None else json.loads(filters),
        headers=dict(request.headers),
        path=request.raw_path,
    )


async def _send_half(
    request: web.Request, data: bytes, headers: Mapping[str, str], *, stalls: bool
) -> web.StreamResponse:
    response = web.StreamResponse(headers=headers)
    response.content_length = len(data)
    await response.prepare(request)
    await response.write(data[: len(data) // 2])
    if stalls:
        await asyncio.Event().wait()
    assert request.transport is not None
    request.transport.close()
    return response


async def _run(folder: Path, port: int, suggested_minutes: int) -> None:
    stub = DataApiStub(folder=folder, port=port, suggested_minutes=suggested_minutes)
    async with stub:
        print(stub.port, flush=True)  # noqa: T201
        # A long run must not remember every request.
        while True:
            await asyncio.sleep(1)
            stub.asks.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--suggested-slice-size", type=int, default=1)
    options = parser.parse_args()
    asyncio.run(_run(options.dir, options.port, options.suggested_slice_size))


if __name__ == "__main__":
    main()
