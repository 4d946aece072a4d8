"""The largest requests that are allowed, one at a time, and what they cost the others.

`python -m tests.soak.large_requests` prints memory and latency for each.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.soak.stalled import OPTIONS, SHORT, Figures, be_others, head, quote, serving, watch

TRADES = {**OPTIONS, "dataTypes": ["trade"]}
REQUESTS: dict[str, Any] = {
    "1,000 equal entries": [{**TRADES, "symbols": ["XBTUSD"]}] * 1000,
    "1,000 entries of different symbols": [
        {**TRADES, "symbols": ["XBTUSD", f"X{number}"]} for number in range(1000)
    ],
    "10,000 symbols": {**TRADES, "symbols": ["XBTUSD", *(f"X{number}" for number in range(9999))]},
    "snapshots of 20,000 levels": {
        **OPTIONS,
        "dataTypes": ["book_snapshot_10000_0ms", "book_snapshot_10000_1ms"],
    },
    "100 data types": {**OPTIONS, "dataTypes": [f"book_snapshot_200_{n}ms" for n in range(100)]},
}
SECONDS = 20.0
BUSY_SECONDS = 60.0
"""How long the request before may take to end, once its client has left."""


async def ask(port: int, request: Any, seconds: float) -> int:
    """Send a request and read its answer for a while; return its size."""
    size = 0
    url = f"http://127.0.0.1:{port}/replay-normalized"
    async with aiohttp.ClientSession() as session, admitted(session, url, request) as response:
        assert response.status == 200, await response.text()
        started = time.monotonic()
        async for part in response.content.iter_any():
            size += len(part)
            if time.monotonic() - started > seconds:
                break
    return size


@asynccontextmanager
async def admitted(
    session: aiohttp.ClientSession, url: str, request: Any
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send a request, again while the server is busy with the one before."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        async with session.post(url, data=json.dumps(request)) as response:
            if response.status != 503 or time.monotonic() > deadline:
                yield response
                return
            await asyncio.sleep(float(response.headers["Retry-After"]))


async def measure(pid: int, port: int, name: str, seconds: float) -> tuple[Figures, int]:
    """Send one request while others ask for little."""
    figures = Figures(name)
    short = head(f"/replay-normalized?options={quote(json.dumps(SHORT))}", upgrade=False)
    async with asyncio.TaskGroup() as tasks:
        watching = [
            tasks.create_task(watch(pid, figures)),
            tasks.create_task(be_others(port, short, figures)),
        ]
        size = await ask(port, REQUESTS[name], seconds)
        for task in watching:
            task.cancel()
    return figures, size


async def run(folder: Path, seconds: float = SECONDS) -> list[tuple[Figures, int]]:
    """Measure every request on one server."""
    async with serving(folder, "--max-streams", "1100") as (pid, port):
        return [await measure(pid, port, name, seconds) for name in REQUESTS]


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        for figures, size in asyncio.run(run(Path(folder))):
            print(  # noqa: T201
                f"{figures.port}: {figures.peak_mb:.0f} MB at most, {size / 1e6:.0f} MB received; "
                f"first byte of other clients p99 {figures.p99_seconds():.2f} s "
                f"({len(figures.first_byte_seconds)} requests)"
            )


if __name__ == "__main__":
    sys.exit(main())
