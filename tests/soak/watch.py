"""What a server under load holds on to: memory, files, tasks."""

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import psutil
from prometheus_client.parser import text_string_to_metric_families

WARM_UP_SHARE = 0.2
MEMORY_SLACK = 1.2
MEMORY_SLACK_MB = 20
COUNT_SLACK = 1.3
COUNT_SLACK_ABSOLUTE = 10
SETTLE_SECONDS = 60


@dataclass(frozen=True)
class Sample:
    """The state of a server and its workers at one moment."""

    rss_mb: float
    largest_rss_mb: float
    files: int
    tasks: float
    streams: float


class Watch:
    """Samples one server, through the system and through its own `/metrics`."""

    def __init__(self, name: str, pid: int, port: int) -> None:
        self.name = name
        self.samples: list[Sample] = []
        self._process = psutil.Process(pid)
        self._port = port

    async def run(self, every_seconds: float) -> None:
        """Take samples until cancelled."""
        while True:
            self.samples.append(await self.take())
            await asyncio.sleep(every_seconds)

    async def take(self) -> Sample:
        """Take one sample."""
        processes = [self._process, *self._process.children()]
        sizes = [each.memory_info().rss / 1e6 for each in processes]
        values = await self.metrics()
        return Sample(
            rss_mb=sum(sizes),
            largest_rss_mb=max(sizes),
            files=sum(each.num_fds() for each in processes),
            tasks=values["tardis_machine_process_tasks"],
            streams=values.get("tardis_machine_server_active_streams", 0.0),
        )

    async def metrics(self) -> dict[str, float]:
        """Return every metric of the server, added up over its labels."""
        url = f"http://127.0.0.1:{self._port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            text = await response.text()
        values: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                values[sample.name] = values.get(sample.name, 0) + sample.value
        return values

    async def settled(self) -> Sample:
        """Return the state once nobody is served any more and nothing is being cleaned up."""
        deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
        before = await self.take()
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(1)
            now = await self.take()
            if not now.streams and (now.files, now.tasks) == (before.files, before.tasks):
                return now
            before = now
        raise AssertionError(f"{self.name} does not come to rest: {before}")

    def problems(self, idle_before: Sample, idle_after: Sample) -> list[str]:
        """Say what has grown: under load after warm-up, and at rest."""
        first, last = self._quarters()
        found = []
        for name in ("rss_mb", "files", "tasks"):
            start, end = (_median(part, name) for part in (first, last))
            if end > _allowed(name, start):
                found.append(f"{self.name}: {name} under load grew from {start:.0f} to {end:.0f}")
        for name in ("files", "tasks"):
            start, end = getattr(idle_before, name), getattr(idle_after, name)
            if end > start + COUNT_SLACK_ABSOLUTE:
                found.append(f"{self.name}: {name} at rest grew from {start} to {end}")
        return found

    def report(self, idle_before: Sample, idle_after: Sample) -> str:
        """Return the figures of this server as one row per measure."""
        first, last = self._quarters()
        rows = [f"{self.name}: {len(self.samples)} samples"]
        for name in ("rss_mb", "largest_rss_mb", "files", "tasks", "streams"):
            peak = max(getattr(each, name) for each in self.samples)
            rows.append(
                f"  {name:15} first quarter {_median(first, name):7.1f}"
                f"  last quarter {_median(last, name):7.1f}  peak {peak:7.1f}"
                f"  at rest {getattr(idle_before, name):7.1f} -> {getattr(idle_after, name):.1f}"
            )
        course = ", ".join(f"{_median(part, 'rss_mb'):.0f}" for part in self._tenths())
        rows.append(f"  rss_mb by tenths of the time: {course}")
        return "\n".join(rows)

    def _tenths(self) -> list[Sequence[Sample]]:
        """Return the samples in ten parts, or fewer when there are fewer samples."""
        size = -(-len(self.samples) // 10)
        return [self.samples[at : at + size] for at in range(0, len(self.samples), size)]

    def _quarters(self) -> tuple[Sequence[Sample], Sequence[Sample]]:
        """Return the first and the last quarter of the samples after warm-up."""
        warm = self.samples[int(len(self.samples) * WARM_UP_SHARE) :]
        size = max(1, len(warm) // 4)
        return warm[:size], warm[-size:]


def _median(samples: Sequence[Sample], name: str) -> float:
    return statistics.median(getattr(sample, name) for sample in samples)


def _allowed(name: str, start: float) -> float:
    if name == "rss_mb":
        return start * MEMORY_SLACK + MEMORY_SLACK_MB
    return start * COUNT_SLACK + COUNT_SLACK_ABSOLUTE
