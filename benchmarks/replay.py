"""Server CPU per replayed message, as a multiple of one orjson round trip of the same messages.

A stub of the data API serves simulated slices over loopback to a server with an empty cache; each
scenario has a server of its own. With `--reference 'command with {port}'` another compatible server
runs each scenario too, interleaved with ours, and the last column is its cost divided by ours. The
command may also use {endpoint} and {cache}; the same values are in its environment as TM_ENDPOINT
and TM_CACHE_DIR. A server that cannot be told another data API needs a wrapper that sets it.
"""

import argparse
import asyncio
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import aiohttp
import orjson

from benchmarks.processes import cpu_seconds, free_ports, rss_mb, running, wait_until_healthy
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.model.requests import Filter
from tardis_machine.sources.simulator import SimulatorSettings, simulate_minutes
from tardis_machine.sources.simulator.slices import slice_path, write_slice

ROOT = Path(__file__).parent.parent
CHANNELS = {
    "bitmex": ("trade", "orderBookL2"),
    "binance-futures": ("trade", "depth", "depthSnapshot"),
}
OURS = (
    f"{sys.executable} -m tardis_machine serve "
    "--port {port} --endpoint {endpoint} --cache-dir {cache}"
)
TYPES = ["trade", "book_change"]


@dataclass(frozen=True)
class Scenario:
    name: str
    path: str
    options: dict[str, object]
    target: dict[str, float]


SCENARIOS = (
    Scenario("HTTP raw", "/replay", {}, {"bitmex": 0.8, "binance-futures": 0.75}),
    Scenario(
        "HTTP trade + book_change",
        "/replay-normalized",
        {"dataTypes": TYPES},
        {"bitmex": 3.3, "binance-futures": 3.6},
    ),
    Scenario(
        "WS trade + book_change",
        "/ws-replay-normalized",
        {"dataTypes": TYPES},
        {"bitmex": 3.9, "binance-futures": 3.7},
    ),
    Scenario(
        "HTTP + book_snapshot_50_0ms",
        "/replay-normalized",
        {"dataTypes": [*TYPES, "book_snapshot_50_0ms"]},
        {"bitmex": 6.4, "binance-futures": 5.7},
    ),
)


@dataclass(frozen=True)
class Feed:
    exchange: str
    minutes: int
    messages: int
    round_trip_us: float


def write_feed(folder: Path, exchange: str, minutes: int, rate: int) -> Feed:
    """Write slices that hold just the channels of trades and books, as the data API would."""
    settings = SimulatorSettings(
        out=folder, minutes=minutes, seed=7, exchanges=(exchange,), rate=rate
    )
    wanted = LineFilter(REGISTRY[exchange], [Filter(name) for name in CHANNELS[exchange]])
    messages, sample = 0, []
    for number, minute in enumerate(simulate_minutes(settings, exchange)):
        lines = wanted.select(minute.content.splitlines())
        messages += len(lines)
        sample.extend(lines[: 100_000 // minutes])
        minute_us = settings.start_us + number * 60_000_000
        write_slice(slice_path(folder, exchange, minute_us), b"\n".join([*lines, b""]))
    return Feed(exchange, minutes, messages, round_trip_us([line[29:] for line in sample]))


def round_trip_us(messages: list[bytes]) -> float:
    """Return the CPU cost of one `orjson.dumps(orjson.loads(x))`, best of three."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        for message in messages:
            orjson.dumps(orjson.loads(message))
        best = min(best, time.process_time() - started)
    return best / len(messages) * 1e6


async def replay(port: int, scenario: Scenario, feed: Feed) -> int:
    """Run one replay to its end and return the bytes received."""
    end = f"2024-03-01T{feed.minutes // 60:02d}:{feed.minutes % 60:02d}"
    options = {"exchange": feed.exchange, "from": "2024-03-01", "to": end, **scenario.options}
    if scenario.path == "/replay":
        options["filters"] = [{"channel": name} for name in CHANNELS[feed.exchange]]
    query = f"{scenario.path}?options={quote(json.dumps(options))}"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(None)) as session:
        if scenario.path.startswith("/ws"):
            return await drain_websocket(session, port + 1, query)
        async with session.get(f"http://127.0.0.1:{port}{query}") as response:
            assert response.status == 200, await response.text()
            return sum([len(chunk) async for chunk in response.content.iter_chunked(1 << 20)])


async def drain_websocket(session: aiohttp.ClientSession, port: int, query: str) -> int:
    """Read a WebSocket to its end as bytes; a client that parses frames would be the bottleneck."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(
        f"GET {query} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    size, tail = 0, b""
    while chunk := await reader.read(1 << 20):
        size += len(chunk)
        tail = (tail + chunk)[-64:]
        if b"finished" in tail:
            break
    writer.close()
    assert b"finished" in tail, tail
    return size


@dataclass(frozen=True)
class Result:
    cpu_us: float
    wall_seconds: float
    rss_mb: float
    bytes: int


def measure(command: str, endpoint: str, scenario: Scenario, feed: Feed) -> Result:
    """Run one scenario on a new server with an empty cache."""
    port = free_ports()
    with tempfile.TemporaryDirectory() as cache:
        environ = {"TM_ENDPOINT": endpoint, "TM_CACHE_DIR": cache, "TM_API_KEY": "x"}
        words = words_of(command, port=str(port), endpoint=endpoint, cache=cache)
        with running(words, ROOT, **environ) as process:
            wait_until_healthy(port)
            cpu, wall = cpu_seconds(process.pid), time.monotonic()
            size = asyncio.run(replay(port, scenario, feed))
            used = cpu_seconds(process.pid) - cpu
            elapsed = time.monotonic() - wall
            return Result(used / feed.messages * 1e6, elapsed, rss_mb(process.pid), size)


def words_of(command: str, **values: str) -> list[str]:
    """Split a command and fill its placeholders; other braces stay as they are."""
    words = shlex.split(command)
    for name, value in values.items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    return words


def measure_pairs(
    commands: list[str], endpoint: str, feed: Feed, runs: int
) -> Iterator[tuple[Scenario, list[Result]]]:
    """Measure every scenario with each server in turn; keep the cheapest run of each."""
    for scenario in SCENARIOS:
        best: list[Result | None] = [None] * len(commands)
        for _ in range(runs):
            for index, command in enumerate(commands):
                result = measure(command, endpoint, scenario, feed)
                known = best[index]
                if known is None or result.cpu_us < known.cpu_us:
                    best[index] = result
        yield scenario, [result for result in best if result is not None]


def command_text(text: str) -> str:
    """Check that a command says where its port goes."""
    if "{port}" not in text:
        raise argparse.ArgumentTypeError("the command must contain {port}")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=13)
    parser.add_argument("--rate", type=int, default=1000, help="messages per second and symbol")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--reference", type=command_text, help="command of another server")
    parser.add_argument("--exchange", action="append", choices=list(CHANNELS))
    arguments = parser.parse_args()
    commands = [OURS, arguments.reference] if arguments.reference else [OURS]
    with tempfile.TemporaryDirectory() as folder:
        feeds = [
            write_feed(Path(folder), exchange, arguments.minutes, arguments.rate)
            for exchange in arguments.exchange or CHANNELS
        ]
        stub = [sys.executable, "-m", "tests.servers.data_api", "--dir", folder, "--port", "0"]
        with running(stub, ROOT) as process:
            assert process.stdout is not None
            endpoint = f"http://127.0.0.1:{process.stdout.readline().decode().split()[-1]}/v1"
            for feed in feeds:
                report(feed, measure_pairs(commands, endpoint, feed, arguments.runs))


def report(feed: Feed, results: Iterator[tuple[Scenario, list[Result]]]) -> None:
    """Print one row per scenario as soon as it is known."""
    print(
        f"\n{feed.exchange}: {feed.messages:,} messages, "
        f"calibration {feed.round_trip_us:.2f} µs per orjson round trip"
    )
    print("| scenario | µs/message | × round trip | target | messages/s | RSS MB | other / ours |")
    print("|---|---|---|---|---|---|---|")
    for scenario, (ours, *others) in results:
        ratio = f"{others[0].cpu_us / ours.cpu_us:.2f}" if others else ""
        print(
            f"| {scenario.name} | {ours.cpu_us:.2f} | {ours.cpu_us / feed.round_trip_us:.2f} "
            f"| {scenario.target[feed.exchange]} | {feed.messages / ours.wall_seconds:,.0f} "
            f"| {ours.rss_mb:.0f} | {ratio} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
