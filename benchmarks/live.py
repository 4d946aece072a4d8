"""Live streams: what a message costs the server, from the socket of an exchange to its clients.

A process plays binance-futures behind a gateway, the server streams from it, and clients read. CPU
time is that of the server process from the first record on, which is the book. Latency is from
before the write of the exchange to after the read of the client, so it includes the client of this
benchmark. A client that misses anything ends it.
"""

import argparse
import asyncio
import json
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import aiohttp
import orjson
import psutil
from aiohttp import web

from benchmarks.processes import free_ports, running, wait_until_healthy
from tests.servers.kafka import Kafka

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {"rateLimits": [{"rateLimitType": "REQUEST_WEIGHT", "limit": 1_000_000}]}
SNAPSHOT = {"lastUpdateId": 1000, "T": 1, "bids": [["60075.10", "1"]], "asks": [["60075.30", "2"]]}
EXCHANGE = "binance-futures"
TRADE_EVERY = 3
PIECE = 200
STEPS_PER_SECOND = 1000
SECONDS = 10
MIN_PER_CPU_SECOND, MAX_TEN_CLIENTS = 60_000, 2.0
MAX_LATENCY_MS, MAX_PUBLISHED_LATENCY_MS = 2.0, 5.0


def trade(number: int, symbol: str) -> dict[str, object]:
    """Return a trade whose time is now, in microseconds."""
    data = {"e": "trade", "E": 1, "T": time.time_ns() // 1000, "s": symbol.upper(), "t": number}
    prices = {"p": "60075.50", "q": "0.750", "X": "MARKET", "m": False}
    return {"stream": f"{symbol}@trade", "data": data | prices}


def update(number: int) -> dict[str, object]:
    """Return a book update of seven levels."""
    ids = {"U": number, "u": number, "pu": number - 1}
    data = {"e": "depthUpdate", "E": 1_788_220_875_123, "T": 1, "s": "BTCUSDT", **ids}
    bids = [
        ["60075.10", str(number % 7)],
        ["60074.90", "1.5"],
        ["60074.80", "0"],
        ["60073.20", "3"],
    ]
    asks = [["60075.30", str(number % 5)], ["60075.60", "2"], ["60076.00", "0"]]
    return {"stream": "btcusdt@depth@0ms", "data": data | {"b": bids, "a": asks}}


def frame(message: dict[str, object]) -> bytes:
    """Return a message as a WebSocket frame."""
    body = orjson.dumps(message)
    return struct.pack("!BBH", 0x81, 126, len(body)) + body


def messages(count: int, symbols: list[str]) -> Iterator[dict[str, object]]:
    """Return trades and book updates; over many symbols trades alone."""
    book = 1000
    for number in range(count):
        if len(symbols) > 1 or number % TRADE_EVERY == 0:
            yield trade(number, symbols[number % len(symbols)])
        else:
            book += 1
            yield update(book)


class Venue:
    """Sends messages to whoever subscribed, as fast as they are taken or at a rate."""

    def __init__(self, count: int, rate: int, symbols: list[str]) -> None:
        self._count, self._rate, self._symbols = count, rate, symbols
        self._asked = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Serve a WebSocket or a REST call."""
        if "exchangeInfo" in request.path:
            return web.json_response(LIMITS)
        if "depth" in request.path:
            self._asked.set()
            return web.json_response(SNAPSHOT)
        websocket = web.WebSocketResponse(autoping=False)
        await websocket.prepare(request)
        assert request.transport is not None
        await websocket.receive()
        if len(self._symbols) == 1:
            # The first update makes the server ask for the book.
            request.transport.write(frame(update(1000)))
            await self._asked.wait()
        await asyncio.sleep(1)
        async for piece in self._pieces(request.transport):
            request.transport.write(piece)
        async for _ in websocket:
            pass
        return websocket

    async def _pieces(self, transport: asyncio.Transport) -> AsyncIterator[bytes]:
        size = PIECE if not self._rate else max(1, self._rate // STEPS_PER_SECOND)
        source, started, sent = messages(self._count, self._symbols), time.monotonic(), 0
        while piece := [*map(frame, islice(source, size))]:
            yield b"".join(piece)
            sent += len(piece)
            while transport.get_write_buffer_size() > 1_000_000:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.0005)
            ahead = sent / self._rate - (time.monotonic() - started) if self._rate else 0.0
            await asyncio.sleep(max(0.0, ahead))


def symbols_of(count: int) -> list[str]:
    """Return made-up symbols; the first is the one with a book."""
    return ["btcusdt", *(f"coin{number}usdt" for number in range(1, count))]


@dataclass
class Result:
    """What a run cost."""

    cpu_seconds: float
    rss_mb: float
    latencies_ms: list[float]

    def latency(self, target_ms: float) -> str:
        """Return the latencies beside a target."""
        p50, p99 = (self.latencies_ms[int(len(self.latencies_ms) * share)] for share in (0.5, 0.99))
        return f"latency p50 {p50:.2f} ms, p99 {p99:.2f} ms (target {target_ms:g})"


async def read(
    port: int,
    count: int,
    symbols: list[str],
    latencies_ms: list[float],
    begin: Callable[[], None],
) -> None:
    """Read a stream up to its last message, and tell when the first came."""
    types = ["trade", "book_change"] if len(symbols) == 1 else ["trade"]
    options = json.dumps([{"exchange": EXCHANGE, "symbols": symbols, "dataTypes": types}])
    url = f"ws://127.0.0.1:{port + 1}/ws-stream-normalized"
    last = (count - 1) // TRADE_EVERY * TRADE_EVERY if len(symbols) == 1 else count - 1
    records = 0
    async with (
        aiohttp.ClientSession(max_line_size=1 << 20) as session,
        session.ws_connect(url, params={"options": options}, max_msg_size=0) as socket,
    ):
        async for message in socket:
            if not records:
                begin()
            records += 1
            if '"type":"trade"' in message.data:
                sent = message.data.partition('"timestamp":"')[2][17:26]
                now = time.time()
                latencies_ms.append(((now % 60 - float(sent)) % 60) * 1000)
                if f'"id":"{last}"' in message.data:
                    break
    assert records > last, f"{records} of {last + 1} records came"


@contextmanager
def streaming(
    count: int, rate: int, symbol_count: int, flags: Sequence[str]
) -> Iterator[tuple[int, psutil.Process]]:
    """Run an exchange and a server while the body runs."""
    gateway, port = free_ports(), free_ports()
    venue = [sys.executable, "-m", "benchmarks.live", "--venue", str(gateway)]
    venue += ["--count", str(count), "--rate", str(rate), "--symbols", str(symbol_count)]
    server = ["tardis-machine", "--port", str(port)]
    server += ["--exchange-gateway", f"http://127.0.0.1:{gateway}", *flags]
    server[0] = str(Path(sys.executable).parent / server[0])
    with running(venue, ROOT), running(server, ROOT) as process:
        wait_until_healthy(port)
        yield port, psutil.Process(process.pid)


def measure(
    count: int,
    rate: int = 0,
    clients: int = 1,
    symbol_count: int = 1,
    flags: Sequence[str] = (),
) -> Result:
    """Stream messages to clients and say what it cost."""
    with streaming(count, rate, symbol_count, flags) as (port, process):
        latencies: list[float] = []
        used: list[float] = []

        def note() -> None:
            times = process.cpu_times()
            used.append(times.user + times.system)

        async def run() -> None:
            symbols = symbols_of(symbol_count)
            each = port, count, symbols, latencies, note
            await asyncio.gather(*(read(*each) for _ in range(clients)))

        asyncio.run(run())
        note()
        return Result(used[-1] - used[0], process.memory_info().rss / 1e6, sorted(latencies))


def calibration() -> float:
    """Return the microseconds of an orjson round trip of a book update."""
    body, rounds = orjson.dumps(update(1000)), 100_000
    started = time.process_time()
    for _ in range(rounds):
        orjson.dumps(orjson.loads(body))
    return (time.process_time() - started) / rounds * 1e6


def report(count: int, rate: int, symbol_count: int) -> None:
    """Print what streams cost."""
    print(f"calibration: {calibration():.2f} µs per orjson round trip of a book update")
    flood = measure(count)
    per_second = count / flood.cpu_seconds
    print(
        f"as fast as it goes: {flood.cpu_seconds / count * 1e6:.1f} µs per message, "
        f"{per_second:,.0f} per CPU second (target {MIN_PER_CPU_SECOND:,})",
        flush=True,
    )
    one = measure(rate * SECONDS, rate)
    share = one.cpu_seconds / SECONDS
    print(
        f"{rate:,} messages per second: CPU {share:.0%} of a core, {one.latency(MAX_LATENCY_MS)}",
        flush=True,
    )
    published = measure_published(rate)
    print(
        f"the same with publishing to Kafka: CPU {published.cpu_seconds / SECONDS:.0%} of a core, "
        f"{published.latency(MAX_PUBLISHED_LATENCY_MS)}",
        flush=True,
    )
    ten = measure(rate * SECONDS, rate, clients=10)
    print(
        f"ten clients on one feed: {ten.cpu_seconds / one.cpu_seconds:.2f} × the CPU of one "
        f"(target {MAX_TEN_CLIENTS:g})",
        flush=True,
    )
    many = measure(rate * SECONDS, rate, symbol_count=symbol_count)
    print(
        f"{symbol_count:,} symbols, {rate:,} trades per second: "
        f"CPU {many.cpu_seconds / SECONDS:.0%} of a core, {many.rss_mb:.0f} MB"
    )


def measure_published(rate: int) -> Result:
    """Stream messages to a client and to Kafka; the cost is that of the server without it."""
    with Kafka() as broker, tempfile.TemporaryDirectory() as folder:
        broker.create_topic("bronze")
        flags = ["--kafka-brokers", broker.address, "--kafka-topic", "bronze"]
        flags += ["--event-bus-spool-dir", folder, "--event-bus-drain-timeout-ms", "0"]
        return measure(rate * SECONDS, rate, flags=flags)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300_000, help="messages of the fast run")
    parser.add_argument(
        "--rate", type=int, default=10_000, help="messages per second of the others"
    )
    parser.add_argument("--symbols", type=int, default=1000, help="symbols of the last run")
    parser.add_argument("--venue", type=int, help="play the exchange on this port")
    arguments = parser.parse_args()
    if arguments.venue is None:
        report(arguments.count, arguments.rate, arguments.symbols)
        return
    venue = Venue(arguments.count, arguments.rate, symbols_of(arguments.symbols))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", venue.answer)
    web.run_app(app, host="127.0.0.1", port=arguments.venue, print=None)


if __name__ == "__main__":
    main()
