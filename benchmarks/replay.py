"""Server CPU per replayed message, as a multiple of one orjson round trip of the same messages.

A server replays simulated slices from its cache, over and over: once to warm up, then three times
or more. What counts is the median of the runs, of the CPU time of the whole process tree. orjson is
measured beside every run. A run is disturbed when other processes of the machine took more than
DISTURBED_CORES of CPU meanwhile; the table says how many were, and such figures are worth little.

With `--reference 'command with {port}'` another compatible server runs each scenario too, in turn
with ours, and the last column is the median of its cost divided by ours. Nothing but the command is
needed: its cache is filled with the slices that our server read, under the same names. It finds
the folder as {cache} in the command or as TM_CACHE_DIR in its environment, and a data API with the
same slices as {endpoint} or TM_ENDPOINT, should it want to download.
"""

import argparse
import asyncio
import json
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import aiohttp
import orjson

from benchmarks.processes import (
    cpu_seconds,
    free_ports,
    other_seconds,
    rss_mb,
    running,
    wait_until_healthy,
)
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.model.requests import Filter
from tardis_machine.sources.simulator import SimulatorSettings, simulate_minutes
from tardis_machine.sources.simulator.slices import slice_path, write_slice

ROOT = Path(__file__).parent.parent
CHANNELS = {
    "bitmex": ("trade", "orderBookL2"),
    "binance-futures": ("trade", "depth", "depthSnapshot"),
    "deribit": ("trades", "book"),
    "coinbase": ("match", "snapshot", "l2update"),
}
MIN_RUNS = 3
DISTURBED_CORES = 0.15
WS_SHARE = 1.12
"""What a WebSocket replay may cost, measured by the same one over HTTP."""
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
        {"bitmex": 2.6, "binance-futures": 1.9, "deribit": 1.5, "coinbase": 2.4},
    ),
    Scenario("WS trade + book_change", "/ws-replay-normalized", {"dataTypes": TYPES}, {}),
    Scenario(
        "HTTP + book_snapshot_50_0ms",
        "/replay-normalized",
        {"dataTypes": [*TYPES, "book_snapshot_50_0ms"]},
        {"bitmex": 6.0, "binance-futures": 5.0},
    ),
    Scenario(
        "HTTP + book_snapshot_10_100ms + trade_bar_1s",
        "/replay-normalized",
        {"dataTypes": [*TYPES, "book_snapshot_10_100ms", "trade_bar_1s"]},
        {"bitmex": 3.8, "binance-futures": 3.2},
    ),
)


@dataclass(frozen=True)
class Feed:
    exchange: str
    minutes: int
    messages: int
    round_trip_us: float
    sample: tuple[bytes, ...] = ()


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
    texts = tuple(line[29:] for line in sample)
    return Feed(exchange, minutes, messages, round_trip_us(texts), texts)


def round_trip_us(messages: Sequence[bytes]) -> float:
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
        f"GET {query} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
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
class Run:
    cpu_us: float
    round_trip_us: float
    wall_seconds: float
    other_cores: float

    @property
    def is_disturbed(self) -> bool:
        return self.other_cores > DISTURBED_CORES


@dataclass(frozen=True)
class Server:
    port: int
    pid: int

    def measure(self, scenario: Scenario, feed: Feed) -> Run:
        """Run one replay from the cache."""
        unit = round_trip_us(feed.sample[:20_000])
        machine, cpu, wall = other_seconds(), cpu_seconds(self.pid), time.monotonic()
        asyncio.run(replay(self.port, scenario, feed))
        used, elapsed = cpu_seconds(self.pid) - cpu, time.monotonic() - wall
        others = max(0.0, other_seconds() - machine) / elapsed
        return Run(used / feed.messages * 1e6, unit, elapsed, others)


@contextmanager
def serving(command: str, endpoint: str, cache: Path) -> Iterator[Server]:
    """Run a server while the body runs."""
    port = free_ports()
    environ = {"TM_ENDPOINT": endpoint, "TM_CACHE_DIR": str(cache), "TM_API_KEY": "x"}
    words = words_of(command, port=str(port), endpoint=endpoint, cache=str(cache))
    with running(words, ROOT, **environ) as process:
        wait_until_healthy(port)
        yield Server(port, process.pid)


@dataclass(frozen=True)
class Measured:
    """The runs of one server in one scenario."""

    runs: tuple[Run, ...]
    rss_mb: float

    @property
    def cpu_us(self) -> float:
        return statistics.median(run.cpu_us for run in self.runs)

    @property
    def round_trips(self) -> float:
        return statistics.median(run.cpu_us / run.round_trip_us for run in self.runs)

    @property
    def wall_seconds(self) -> float:
        return statistics.median(run.wall_seconds for run in self.runs)

    @property
    def disturbed(self) -> int:
        return sum(run.is_disturbed for run in self.runs)

    def cost_of(self, other: "Measured") -> float:
        """Return what another server costs, measured by this one in the run beside it."""
        return statistics.median(
            theirs.cpu_us / ours.cpu_us for ours, theirs in zip(self.runs, other.runs, strict=True)
        )


def words_of(command: str, **values: str) -> list[str]:
    """Split a command and fill its placeholders; other braces stay as they are."""
    words = shlex.split(command)
    for name, value in values.items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    return words


def measure_scenario(
    commands: Sequence[str], endpoint: str, scenario: Scenario, feed: Feed, caches: Path, runs: int
) -> list[Measured]:
    """Measure every server in turn, each with a warm cache."""
    with ExitStack() as stack:
        servers: list[Server] = []
        ours = caches / f"{feed.exchange}-0"
        for number, command in enumerate(commands):
            cache = caches / f"{feed.exchange}-{number}"
            if number:
                shutil.copytree(ours, cache, dirs_exist_ok=True)
            servers.append(stack.enter_context(serving(command, endpoint, cache)))
            asyncio.run(replay(servers[-1].port, scenario, feed))
        rounds = [[server.measure(scenario, feed) for server in servers] for _ in range(runs)]
        return [
            Measured(tuple(of_one), rss_mb(server.pid))
            for server, of_one in zip(servers, zip(*rounds, strict=True), strict=True)
        ]


def command_text(text: str) -> str:
    """Check that a command says where its port goes."""
    if "{port}" not in text:
        raise argparse.ArgumentTypeError("the command must contain {port}")
    return text


def run_count(text: str) -> int:
    """Check that there are enough runs for a median."""
    if int(text) < MIN_RUNS:
        raise argparse.ArgumentTypeError(f"at least {MIN_RUNS}")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=13)
    parser.add_argument("--rate", type=int, default=1000, help="messages per second and symbol")
    parser.add_argument("--runs", type=run_count, default=MIN_RUNS)
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
                print_head(feed, arguments.minutes, arguments.rate)
                http = 0.0
                for scenario in SCENARIOS:
                    measured = measure_scenario(
                        commands, endpoint, scenario, feed, Path(folder) / "caches", arguments.runs
                    )
                    target = scenario.target.get(feed.exchange)
                    if scenario.path.startswith("/ws"):
                        target = round(http * WS_SHARE, 2)
                    print(row(scenario.name, target, feed, *measured), flush=True)
                    http = measured[0].round_trips


def print_head(feed: Feed, minutes: int, rate: int) -> None:
    size = sum(map(len, feed.sample)) // len(feed.sample)
    print(
        f"\n{feed.exchange}: {feed.messages:,} simulated messages (seed 7, {minutes} minutes, "
        f"rate {rate}), {size} B each, {feed.round_trip_us:.2f} µs per orjson round trip"
    )
    print(
        "| scenario | µs/message | × round trip | target | messages/s | RSS MB | disturbed runs "
        "| other µs | other / ours |"
    )
    print("|---|---|---|---|---|---|---|---|---|")


def row(
    name: str, target: float | None, feed: Feed, ours: Measured, other: Measured | None = None
) -> str:
    """Write the medians of one scenario."""
    disturbed = ours.disturbed + (other.disturbed if other else 0)
    count = len(ours.runs) * (2 if other else 1)
    cells = [
        name,
        f"{ours.cpu_us:.2f}",
        f"{ours.round_trips:.2f}",
        "" if target is None else f"{target:g}",
        f"{feed.messages / ours.wall_seconds:,.0f}",
        f"{ours.rss_mb:.0f}",
        f"{disturbed} of {count}",
        f"{other.cpu_us:.2f}" if other else "",
        f"{ours.cost_of(other):.2f}" if other else "",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
