"""Kills at random moments, and the figures of what they did."""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from tests.soak.publishing_buses import SoakBus
from tests.soak.publishing_evidence import examine
from tests.soak.publishing_job import Job
from tests.soak.publishing_load import EVENTS, Load, make_seed
from tests.soak.publishing_process import Server

KILLS = 8
KILLS_AFTERWARDS = 4
LONGEST_PAUSE_SECONDS = 2.0
SHORT_PAUSE_SECONDS = 0.3

Kill = Callable[[], Awaitable[None]]


class Figures:
    """Counts what happens in one test, and prints it."""

    def __init__(self, bus: SoakBus, capsys: pytest.CaptureFixture[str]) -> None:
        self._bus = bus
        self._capsys = capsys
        self._started = time.monotonic()
        self.seed = make_seed()
        self.chance = random.Random(self.seed)
        self.kills: Counter[str] = Counter()

    async def check(self, answered: bytes, peak_mb: float) -> None:
        """Read the bus, fail on everything that is wrong with it, and print the figures."""
        seconds = time.monotonic() - self._started
        received = await self._bus.read()
        evidence = examine(received, answered)
        self._print(
            f"{self._bus.name}, {self._describe_kills()}: {evidence.events:,} events accepted,"
            f" {len(received):,} at the consumer, {evidence.duplicates:,} of them again,"
            f" {evidence.lost:,} lost, {seconds:.0f} s, publisher peak {peak_mb:.0f} MB"
        )
        assert not evidence.problems, "\n".join([f"seed {self.seed}", *evidence.problems])
        assert evidence.events >= EVENTS
        assert self.kills, "it ended before it was killed"

    def _describe_kills(self) -> str:
        return " and ".join(f"{what} killed {times} times" for what, times in self.kills.items())

    def _print(self, text: str) -> None:
        with self._capsys.disabled():
            print(f"\n{text}, seed {self.seed}")  # noqa: T201


async def kill_at_random(
    what: str, kill: Kill, figures: Figures, load: Load, server: Server
) -> None:
    """Kill while clients are served, and while the bus catches up with them."""
    chance = figures.chance
    for lines in sorted(chance.sample(range(EVENTS), KILLS)):
        await load.reach(lines)
        await asyncio.sleep(chance.uniform(0, SHORT_PAUSE_SECONDS))
        await kill()
        figures.kills[what] += 1
    await load.reach(math.inf)
    for _ in range(KILLS_AFTERWARDS):
        await asyncio.sleep(chance.uniform(0, LONGEST_PAUSE_SECONDS))
        if not await server.backlog():
            return
        await kill()
        figures.kills[what] += 1


async def kill_job_at_random(figures: Figures, job: Job) -> None:
    """Kill a job or only its publisher, until it has ended or was killed often enough."""
    chance, settled = figures.chance, 0
    for minutes in sorted(chance.sample(range(job.minutes), KILLS)):
        is_whole = chance.random() < 0.5
        # A publisher that dies before it is ready is a failed start, not an accident.
        if not await job.is_beyond(minutes if is_whole else max(minutes, settled)):
            return
        await asyncio.sleep(chance.uniform(0, SHORT_PAUSE_SECONDS))
        if not job.command.is_running:
            return
        settled = job.settled_minutes()
        if is_whole:
            await job.command.kill()
            job.command.start()
        else:
            await job.command.kill_publisher()
        figures.kills["job" if is_whole else "publisher of a job"] += 1
