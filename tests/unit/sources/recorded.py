"""A small recorded feed, and an archive around it whose time the test owns."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from tardis_machine.model.requests import Filter, ReplayRange
from tardis_machine.model.time import MINUTE_US, parse_us
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.cache import SliceFolder
from tardis_machine.sources.context import Timing
from tardis_machine.sources.settings import ArchiveSettings
from tests.servers.data_api import Slices, minute_text

EXCHANGE = "bitmex"
START_US = parse_us("2024-03-01T00:00:00.000Z")
_DEADLINE_SECONDS = 120
TRADES = (Filter("trade", ("XBTUSD",)),)


def minute(number: int) -> int:
    """Return the start of a minute of the recording."""
    return START_US + number * MINUTE_US


def minutes(start: int, end: int) -> ReplayRange:
    return ReplayRange(minute(start), minute(end))


def lines(number: int, count: int = 3) -> bytes:
    """Return the recorded lines of one minute."""
    text = minute_text(minute(number))
    return b"".join(
        f'{text}:{second:02d}.1234567Z {{"minute":{number}}}\n'.encode() for second in range(count)
    )


def all_lines(start: int, end: int) -> bytes:
    return b"".join(lines(number) for number in range(start, end))


def recorded(count: int) -> Slices:
    """Return the slices of the first minutes, as the stub serves them."""
    return {(EXCHANGE, minute_text(minute(number))): lines(number) for number in range(count)}


@dataclass
class FakeTime:
    """A clock that only sleeping moves."""

    now_us: int = minute(1_000_000)
    pauses: list[float] = field(default_factory=list)

    def clock(self) -> int:
        return self.now_us

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_us += int(seconds * 1_000_000)
        await asyncio.sleep(0)

    @property
    def timing(self) -> Timing:
        return Timing(clock=self.clock, sleep=self.sleep, random=lambda: 0.0)


@asynccontextmanager
async def archive(
    endpoint: str, cache_dir: Path, time: FakeTime | None = None, **settings: Any
) -> AsyncIterator[ArchiveSource]:
    """Open an archive whose pauses cost no time."""
    timing = (time or FakeTime()).timing
    chosen = ArchiveSettings(endpoint=endpoint, cache_dir=cache_dir, **settings)
    async with ArchiveSource(chosen, timing=timing) as source:
        yield source


async def read(
    source: ArchiveSource,
    start: int,
    end: int,
    filters: Iterable[Filter] = TRADES,
    **options: Any,
) -> bytes:
    """Replay some minutes to the end."""
    chunks = source.lines(EXCHANGE, filters, minutes(start, end), **options)
    return b"".join([chunk.data async for chunk in chunks])


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; what takes longer than the deadline never will be."""
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for knows no event
            await asyncio.sleep(0.001)


def archive_tasks() -> list[str]:
    """Name the running tasks that belong to a replay."""
    names = (task.get_coro().__qualname__ for task in asyncio.all_tasks())  # type: ignore[union-attr]
    return [name for name in names if name.startswith(("Prefetch", "Replay", "RecordedSlices"))]


def put_in_cache(
    cache_dir: Path,
    number: int,
    content: bytes,
    filters: Iterable[Filter] = TRADES,
    *,
    size: int = 1,
    suffix: str = ".zst",
) -> Path:
    """Store a slice as another tool that shares the cache would."""
    base = SliceFolder(cache_dir, EXCHANGE, filters).base_path(minute(number), size)
    path = base.with_name(base.name + suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    compress = zstandard.ZstdCompressor().compress if suffix == ".zst" else gzip.compress
    path.write_bytes(compress(content))
    return path


def fill_cache(cache_dir: Path, count: int, filters: Iterable[Filter] = TRADES) -> None:
    for number in range(count):
        put_in_cache(cache_dir, number, lines(number), filters)


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def cached_names(cache_dir: Path) -> list[str]:
    """List all files of a cache, relative to the folder of their filters."""
    paths = (path.relative_to(cache_dir).as_posix() for path in files_in(cache_dir))
    return [path.split("/", 3)[3] for path in paths]
