"""What clients ask for during a soak, and what they must get."""

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tardis_machine.app.machine import TardisMachine
from tests.servers.ports import free_ports

MINUTES = 12
EXCHANGES = {
    "bitmex": ("trade", "orderBookL2"),
    "binance-futures": ("trade", "depth", "depthSnapshot"),
    "deribit": ("trades", "book"),
    "coinbase": ("match", "last_match", "l2update", "snapshot"),
}
# A gap has the time of the line before it, which in a slice of the whole feed may be one that was
# not asked for. So gaps are asked for where no request brings whole slices into the cache.
GAPS = "deribit"
DATA_TYPES = (
    ["trade", "book_change"],
    ["trade", "book_snapshot_10_100ms", "trade_bar_1s"],
    ["book_snapshot_5_0ms", "quote_1s", "trade_bar_100ticks"],
)
SUBSCRIPTIONS = {
    "bitmex": {"op": "subscribe", "args": ["trade:XBTUSD", "orderBookL2:XBTUSD"]},
    "binance-futures": {"method": "SUBSCRIBE", "params": ["btcusdt@trade", "ethusdt@depth"]},
}
RANGES = ((0, 1), (0, 3), (4, 9), (0, MINUTES))


@dataclass(frozen=True)
class Wanted:
    """One request; `subscribe` is sent after connecting, where there is anything to send."""

    path: str
    options: Any
    subscribe: Any = None

    @property
    def params(self) -> dict[str, str]:
        """The query of the request."""
        if self.path == "/ws-replay":
            return dict(self.options)
        return {"options": json.dumps(self.options)}


Identity = tuple[int, str]
"""Size and digest of a response."""

Expected = Sequence[tuple[Wanted, Identity]]


@dataclass
class Body:
    """A response as it comes in; equal ones have the same size and digest."""

    size: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self._digest.update(data)

    @property
    def identity(self) -> Identity:
        return self.size, self._digest.hexdigest()


def minute(number: int) -> str:
    return f"2024-03-01T00:{number:02d}"


def http_requests() -> Iterator[Wanted]:
    """Yield raw, normalized, computed and combined requests of several lengths."""
    for (exchange, channels), (start, end) in itertools.product(EXCHANGES.items(), RANGES):
        common = {"exchange": exchange, "from": minute(start), "to": minute(end)}
        filters = [{"channel": name} for name in channels]
        yield Wanted("/replay", {**common, "filters": filters})
        if exchange == GAPS:
            yield Wanted("/replay", {**common, "filters": filters[:1], "withDisconnects": True})
        else:
            yield Wanted("/replay", common)
        for data_types in DATA_TYPES:
            yield Wanted("/replay-normalized", {**common, "dataTypes": data_types})
    common = {"from": minute(2), "to": minute(6), "dataTypes": DATA_TYPES[0]}
    yield Wanted("/replay-normalized", [{**common, "exchange": name} for name in EXCHANGES])
    gaps = {**common, "exchange": GAPS, "withDisconnectMessages": True}
    yield Wanted("/replay-normalized", gaps)


def native_requests() -> Iterator[Wanted]:
    """Yield connections that speak an exchange's own protocol."""
    for (exchange, subscribe), (start, end) in itertools.product(SUBSCRIPTIONS.items(), RANGES):
        common = {"exchange": exchange, "from": minute(start), "to": minute(end)}
        yield Wanted("/ws-replay", common, subscribe)


async def expected_bodies(endpoint: str, cache: Path) -> Expected:
    """Ask an undisturbed server over an undisturbed data API, each request once."""
    options = {"port": free_ports(), "cache_dir": cache, "endpoint": endpoint}
    requests = [*http_requests(), *native_requests()]
    async with (
        TardisMachine(**options, subscribe_seconds=0.05) as machine,
        aiohttp.ClientSession() as client,
    ):
        bodies = [await fetch(client, machine.settings.server.port, each) for each in requests]
    return list(zip(requests, bodies, strict=True))


async def fetch(
    client: aiohttp.ClientSession, port: int, wanted: Wanted, **params: str
) -> Identity:
    """Return the identity of a complete response."""
    if wanted.path.startswith("/ws"):
        return await fetch_websocket(client, port + 1, wanted, **params)
    body = Body()
    url = f"http://127.0.0.1:{port}{wanted.path}"
    async with client.get(url, params=wanted.params) as response:
        assert response.status == 200, await response.text()
        async for chunk in response.content.iter_any():
            body.add(chunk)
    return body.identity


async def fetch_websocket(
    client: aiohttp.ClientSession, port: int, wanted: Wanted, **params: str
) -> Identity:
    """Return the identity of all messages as lines."""
    body = Body()
    url = f"http://127.0.0.1:{port}{wanted.path}"
    async with client.ws_connect(url, params={**wanted.params, **params}) as socket:
        if wanted.subscribe is not None:
            await socket.send_json(wanted.subscribe)
        while (message := await socket.receive()).type is aiohttp.WSMsgType.TEXT:
            body.add(message.data.encode() + b"\n")
        assert socket.close_code == 1000, f"{socket.close_code} {message.extra}"
    return body.identity
