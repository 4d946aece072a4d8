"""A server that publishes at a steady rate while its bus has one misfortune after another."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.publishing_consumers import GONE, WAIT_SECONDS, Consumer
from tests.soak.publishing_faults import Fault, Misfortune
from tests.soak.publishing_ledger import Ledger
from tests.soak.publishing_load import EXCHANGES, replay_options
from tests.soak.publishing_process import Server
from tests.soak.watch import SETTLE_SECONDS, Sample, Watch

BUDGET_SECONDS = 60.0
"""How long a replay may wait for room; what it drops after that is lost by intention."""
RESPONSE_SECONDS = BUDGET_SECONDS + 30
CALIBRATION_SECONDS = 15
DELIVERY = (
    *("--event-bus-retry-max-ms", "2000"),
    *("--event-bus-replay-max-block-ms", str(round(BUDGET_SECONDS * 1000))),
)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One bus, and what happens to it."""

    name: str
    flags: Sequence[str]
    faults: Sequence[Fault]
    consumer: Consumer
    events_per_second: float | None = None
    """None: half of what the bus takes."""
    exchanges: Sequence[str] = EXCHANGES
    disorder: int = 0
    """By how many places an event may come late within its key."""
    secrets: Sequence[str] = ()


class SteadyLoad:
    """Asks for the same minute again and again."""

    def __init__(self, server: Server, exchanges: Sequence[str]) -> None:
        self._server = server
        self._options = replay_options(0, 1, *exchanges)
        self.body = b""
        self.lines = 0
        self.events = 0
        """Lines of all responses so far."""
        self.longest_seconds = 0.0

    async def ask(self) -> None:
        """Ask once; every response is the same."""
        started = time.monotonic()
        async with self._server.replay(self._options) as response:
            response.raise_for_status()
            body = await response.read()
        assert self.body in (b"", body), "a replay was answered differently"
        self.body, self.lines = body, body.count(b"\n")
        self.events += self.lines
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - started)

    async def run(self, seconds: float, events_per_second: float) -> None:
        """Ask at a rate; time that a response took too long is not made up for."""
        pause = self.lines / events_per_second
        due, end = time.monotonic(), time.monotonic() + seconds
        while due < end:
            await self.ask()
            due = max(due + pause, time.monotonic())
            await asyncio.sleep(due - time.monotonic())


@dataclass
class Peaks:
    """The most that the pipeline held at any moment."""

    values: dict[str, float] = field(default_factory=dict)

    async def watch(self, server: Server) -> None:
        """Look at the gauges until cancelled."""
        while True:
            metrics = await server.metrics()
            for name in ("queue_events", "queue_bytes", "lanes", "parked_events"):
                self.values[name] = max(self.values.get(name, 0), metrics.get(name, 0))
            await asyncio.sleep(0.5)


async def consume(consumer: Consumer, ledger: Ledger) -> None:
    """Check what arrives until cancelled."""
    while True:
        try:
            batch = await consumer.read()
        except GONE:
            batch = []
        if batch:
            ledger.take(batch)
        await asyncio.sleep(0 if batch else WAIT_SECONDS)


class Run:
    """One trial as it happens."""

    def __init__(self, trial: Trial, recordings: Path, folder: Path, seed: int) -> None:
        self._trial = trial
        self._misfortune = Misfortune(trial.faults, seed)
        self._server = Server(recordings, folder, [*DELIVERY, *trial.flags])
        self._load = SteadyLoad(self._server, trial.exchanges)
        self._peaks = Peaks()
        self._rest: list[Sample] = []
        self._rate = 0.0
        self.problems: list[str] = []
        self.figures = ""

    async def run(self, seconds: float) -> None:
        """Publish through all misfortunes, then look what is wrong."""
        async with self._server as server:
            await self._load.ask()
            publisher = await server.command.publisher()
            assert publisher is not None
            ledger = Ledger(self._load.body, self._trial.disorder)
            watch = Watch(f"publisher of {self._trial.name}", publisher.pid, server.port)
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(consume(self._trial.consumer, ledger))
                await self._suffer(watch, seconds)
                await self._catch_up(ledger)
                reading.cancel()
            await self._trial.consumer.close()
            self._rest.append(await watch.settled())
            metrics = await server.metrics()
            self._check_pipeline(metrics, ledger)
            self.problems += [*ledger.problems, *watch.problems(*self._rest)]
            if not publisher.is_running():
                self.problems.append("the publisher died")
            self.figures = self._describe(metrics, ledger, watch)
            await self._end()

    async def _suffer(self, watch: Watch, seconds: float) -> None:
        rate = self._trial.events_per_second or await self._half_of_what_the_bus_takes()
        self._rest.append(await watch.settled())
        before, started = self._load.events, time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            watching = [
                tasks.create_task(watch.run(max(0.25, seconds / 300))),
                tasks.create_task(self._peaks.watch(self._server)),
            ]
            async with asyncio.TaskGroup() as acting:
                acting.create_task(self._load.run(seconds, rate))
                acting.create_task(self._misfortune.run(seconds))
            for task in watching:
                task.cancel()
        self._rate = (self._load.events - before) / (time.monotonic() - started)

    async def _half_of_what_the_bus_takes(self) -> float:
        before, started = await self._published(), time.monotonic()
        while time.monotonic() - started < CALIBRATION_SECONDS:
            await self._load.ask()
            await self._server.wait_for_backlog(self._load.lines)
        published = await self._published() - before
        return published / (time.monotonic() - started) / 2

    async def _published(self) -> float:
        # There is no such count before the first acknowledgement.
        return (await self._server.metrics()).get("published_total", 0)

    async def _catch_up(self, ledger: Ledger) -> None:
        """Wait until the consumer has everything, as long as events arrive."""
        with suppress(TimeoutError):
            await ledger.wait_for(self._load.events)
            async with asyncio.timeout(SETTLE_SECONDS):
                await self._server.wait_for_backlog(0)

    def _check_pipeline(self, metrics: dict[str, float], ledger: Ledger) -> None:
        kept = ("published_total", "filtered_total", "dead_letter_total", "dropped_total")
        kept += ("queue_events", "parked_events")
        peaks, missing = self._peaks.values, ledger.missing(self._load.events)
        claims = {
            f"{missing} events are missing": missing == 0,
            f"counts do not add up: {metrics}": metrics["enqueued_total"]
            == sum(metrics.get(name, 0) for name in kept)
            == self._load.events,
            f"there were {peaks['lanes']} lanes for {ledger.keys} keys": (
                peaks["lanes"] <= ledger.keys
            ),
            f"a response took {self._load.longest_seconds:.1f} s": (
                self._load.longest_seconds < RESPONSE_SECONDS
            ),
        }
        self.problems += [text for text, is_true in claims.items() if not is_true]

    async def _end(self) -> None:
        command = self._server.command
        if (code := await command.end()) != 0:
            self.problems.append(f"exit code {code}")
        self.problems += [
            "a secret is in the log" for each in self._trial.secrets if each in command.log_text
        ]

    def _describe(self, metrics: dict[str, float], ledger: Ledger, watch: Watch) -> str:
        peaks = self._peaks.values
        self._server.command.note_peak()
        return (
            f"{self._trial.name}: {self._load.events:,} events at {self._rate:,.0f}/s,"
            f" {ledger.duplicates:,} duplicates,"
            f" {ledger.missing(self._load.events)} lost,"
            f" {metrics.get('retries_total', 0):,.0f} retries,"
            f" {metrics.get('redelivered_total', 0):,.0f} sent again in doubt,"
            f" at most {ledger.latest} places late,"
            f" publisher peak {self._server.command.peak_mb:.0f} MB\n"
            f"  at most {peaks['queue_events']:,.0f} events and {peaks['queue_bytes'] / 1e6:.0f} MB"
            f" in the log, {peaks['parked_events']:,.0f} parked, {peaks['lanes']:.0f} lanes,"
            f" longest response {self._load.longest_seconds:.1f} s\n"
            f"  {dict(self._misfortune.counts)}\n"
            f"{watch.report(*self._rest)}"
        )
