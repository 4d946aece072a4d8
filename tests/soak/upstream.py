"""A data API in a process of its own that filters as the real one does, and often fails.

`python -m tests.soak.upstream --dir CACHE --port PORT` serves simulated slices until it is ended.
Its counts are at `/counts`.
"""

import argparse
import asyncio
import random
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import zstandard
from aiohttp import web

from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.model.requests import Filter
from tardis_machine.sources.cache import SliceFile
from tests.servers.data_api import Ask, DataApiStub, Fault

CHANCE = 0.01
"""How likely each kind of fault is, per request."""


@dataclass
class Chance(Fault):
    """A fault that happens now and then, and counts how often."""

    name: str = ""
    times: int | None = None
    count: int = 0

    def applies_to(self, ask: Ask) -> bool:
        happens = random.random() < CHANCE
        self.count += happens
        return happens


def faults() -> list[Chance]:
    """Return every kind of fault."""
    return [
        Chance(name="500", status=500, body="out of luck"),
        Chance(name="503", status=503),
        Chance(name="429", status=429, headers={"Retry-After": "1"}),
        Chance(name="cut", is_cut=True),
        Chance(name="stalled", stalls=True),
        Chance(name="slow", delay_seconds=0.5),
    ]


class FilteringDataApi(DataApiStub):
    """Serves the slices of a folder narrowed to the filters of each request."""

    def _files(self, ask: Ask) -> list[SliceFile]:
        return [] if ask.filters else super()._files(ask)

    def _body(self, ask: Ask) -> tuple[bytes, str]:
        if not ask.filters:
            return super()._body(ask)
        whole = super()._files(ask)
        filters = msgspec.json.encode(ask.filters)
        parts = (filtered(file.path, ask.exchange, filters) for file in whole)
        return b"".join(parts), "zstd"


@lru_cache(maxsize=512)
def filtered(path: Path, exchange: str, filters: bytes) -> bytes:
    """Return a slice with only the lines that match."""
    lines = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    wanted = LineFilter(REGISTRY[exchange], msgspec.json.decode(filters, type=list[Filter]))
    selected = wanted.select(lines.split(b"\n")[:-1])
    return zstandard.ZstdCompressor().compress(b"".join(line + b"\n" for line in selected))


async def run(folder: Path, port: int) -> None:
    """Serve slices, faults and counts."""
    happening = faults()
    requests = 0

    async def show(_: web.Request) -> web.Response:
        counts = {fault.name: fault.count for fault in happening}
        return web.json_response({"requests": requests, **counts})

    app = web.Application()
    app.router.add_get("/counts", show)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port + 1).start()
    async with FilteringDataApi(folder=folder, port=port, faults=[*happening]) as api:
        while True:
            await asyncio.sleep(0.5)
            requests += len(api.asks)
            api.asks.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    asyncio.run(run(options.dir, options.port))


if __name__ == "__main__":
    main()
