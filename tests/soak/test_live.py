"""Minutes of live streams from exchanges that fail every few seconds: all books stay true.

`TM_SOAK_MINUTES` sets the duration (default: 30), `TM_SOAK_SEED` repeats a run.
"""

import asyncio
import json
import os
import random
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tardis_machine.bronze.decode import Decoder
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.sources.slices import read_slice
from tests.integration.publishing.machine import Machine, published
from tests.integration.publishing.test_live import local_exchange
from tests.soak.live_books import LiveBooks, Series, digest, series_of
from tests.soak.publishing_load import make_seed
from tests.soak.watch import Watch

SECONDS = float(os.environ.get("TM_SOAK_MINUTES", "30")) * 60
CHECKS = 100
FAULT_SECONDS = (2.0, 5.0)
BOOK_SECONDS = 180.0
"""A stalled connection is noticed after 20 s, and reconnects wait up to 32 s."""

SAMPLE_SECONDS = 5.0
MAX_TAIL = 2000
"""Events that a feed may bring while its clients leave."""

SYMBOLS = {
    "bitmex": ["XBTUSD", "ETHUSD"],
    "binance-futures": ["btcusdt", "ethusdt"],
    "deribit": ["BTC-PERPETUAL"],
    "coinbase": ["BTC-USD", "ETH-USD"],
    "okex-swap": ["BTC-USDT-SWAP", "ETH-USDT-SWAP"],
    "kraken": ["BTC/USD", "ETH/USD"],
}
KINDS = ("close", "close", "gap", "gap", "garbage", "stall", "rate-limit", "refuse")
CODES = (1000, 1001, 1006, 1011, 1012, 4000)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(SECONDS * 2 + 1800)]


class Soak:
    """The streams, the faults and what is found out."""

    def __init__(self, gateway: str, machine: Machine, seed: int) -> None:
        self.gateway = gateway
        self.machine = machine
        self.books = [LiveBooks(exchange, symbols) for exchange, symbols in SYMBOLS.items()]
        self.faults: Counter[str] = Counter()
        self.problems: list[str] = []
        self.checks = 0
        self._random = random.Random(seed)
        self._started = time.monotonic()

    async def run(self) -> None:
        """Stream and fail, compare at random moments, and once more when all is calm."""
        url = f"ws://127.0.0.1:{self.machine.port + 1}/ws-stream-normalized"
        streams = [asyncio.create_task(each.run(url)) for each in self.books]
        failing = asyncio.create_task(self._fail())
        moments = sorted(self._random.uniform(0, SECONDS) for _ in range(CHECKS))
        checks = [asyncio.create_task(self._check(moment)) for moment in moments]
        await asyncio.gather(*checks)
        await asyncio.sleep(max(0.0, self._started + SECONDS - time.monotonic()))
        await self._stop([failing])
        last = [
            each.compare(symbol, self.gateway, BOOK_SECONDS)
            for each in self.books
            for symbol in each.symbols
        ]
        for problem in await asyncio.gather(*last):
            self._note(problem)
        await self._stop(streams)
        self.problems += [problem for each in self.books for problem in each.problems]

    async def _check(self, moment: float) -> None:
        await asyncio.sleep(moment)
        each = self._random.choice(self.books)
        symbol = self._random.choice(each.symbols)
        self._note(await each.compare(symbol, self.gateway, BOOK_SECONDS))

    def _note(self, problem: str | None) -> None:
        self.checks += 1
        if problem is not None:
            self.problems.append(problem)

    async def _fail(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                await asyncio.sleep(self._random.uniform(*FAULT_SECONDS))
                kind = self._random.choice(KINDS)
                fault: dict[str, Any] = {
                    "kind": kind,
                    "exchange": self._random.choice(self.books).exchange,
                }
                if kind == "close":
                    fault["value"] = self._random.choice(CODES)
                async with session.post(f"{self.gateway}/faults", json=fault) as response:
                    assert response.status == 200, await response.text()
                self.faults[kind] += 1

    async def _stop(self, tasks: list["asyncio.Task[None]"]) -> None:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def figures(self) -> str:
        records = sum(len(seen) for each in self.books for seen in each.seen.values())
        disconnects = sum(each.count("disconnect") for each in self.books)
        errors = sum(each.count("error") for each in self.books)
        return (
            f"live: {SECONDS / 60:g} minutes, {records:,} records, {disconnects} disconnects, "
            f"{errors} errors, {self.checks} books compared; faults {dict(self.faults)}"
        )


def bus_problems(bus: Path, books: list[LiveBooks]) -> list[str]:
    """Say what is on the bus twice or not at all, compared with what clients saw."""
    events = published(bus)
    problems = []
    twice = len(events) - len({event.event_id for event in events})
    if twice:
        problems.append(f"{twice} events are on the bus twice")
    arrived: dict[Series, list[int]] = defaultdict(list)
    decoder = Decoder()
    for event in events:
        [line] = encode_lines(decoder.decode([event.envelope])).splitlines()
        record = json.loads(line)
        arrived[series_of(record)].append(digest(record))
    for each in books:
        for series, seen in each.seen.items():
            stored = arrived[series]
            if stored[: len(seen)] != seen:
                problems.append(f"{series}: {len(seen)} seen, {len(stored)} stored, not the same")
            elif len(stored) - len(seen) > MAX_TAIL:
                problems.append(f"{series}: {len(stored) - len(seen)} stored that nobody saw")
    return problems


async def test_books_stay_true_and_every_event_reaches_the_bus_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = make_seed()
    with local_exchange() as exchange:
        flags = [
            f"--exchange-gateway={exchange.gateway}",
            f"--files-dir={tmp_path / 'bus'}",
            f"--record={tmp_path / 'recorded'}",
        ]
        with Machine(tmp_path / "cache", tmp_path, *flags) as machine:
            assert machine.process is not None
            watch = Watch("serve", machine.process.pid, machine.port)
            soak = Soak(exchange.gateway, machine, seed)
            idle_before = await watch.settled()
            sampling = asyncio.create_task(watch.run(SAMPLE_SECONDS))
            await soak.run()
            sampling.cancel()
            idle_after = await watch.settled()
            assert await asyncio.to_thread(machine.stop) == 0
    with capsys.disabled():
        print(f"\n{soak.figures()}, seed {seed}")  # noqa: T201
        print(watch.report(idle_before, idle_after))  # noqa: T201
    problems = soak.problems + watch.problems(idle_before, idle_after)
    problems += bus_problems(tmp_path / "bus", soak.books)
    assert problems[:20] == []
    assert soak.checks >= CHECKS
    slices = [*(tmp_path / "recorded" / "feeds").rglob("*.zst")]
    assert all(sum(map(len, read_slice(path))) for path in slices)
    assert slices
