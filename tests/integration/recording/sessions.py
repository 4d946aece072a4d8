"""A live session that is recorded, and its replay."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tardis_machine.app.publishing.live import live_views
from tardis_machine.model.control import Disconnect
from tardis_machine.model.records import Record
from tardis_machine.model.requests import NormalizedReplayRequest, StreamRequest
from tardis_machine.model.time import MINUTE_US, ms_text, parse_us
from tardis_machine.session.context import SessionContext
from tardis_machine.session.live.plan import plan_stream
from tardis_machine.session.live.views import LiveChunk, LiveViews, ViewKey
from tardis_machine.session.plan import plan_normalized
from tardis_machine.session.run import normalized_records
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.live.listeners import Failure, Loss
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.sources.recording.settings import RecordSettings
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.telemetry.metrics import Metrics

TIMES = {"timestamp", "localTimestamp"}
"""A record without a time of the exchange has the local one twice."""
MILLISECONDS = len("2024-03-01T00:00:00.000")


class Listener:
    """A client of a live stream, who sees everything at once."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = symbols
        self.records: list[Record] = []

    @property
    def disconnects(self) -> int:
        return sum(type(record) is Disconnect for record in self.records)

    def take(self, chunk: LiveChunk) -> None:
        self.records += chunk.records

    def failed(self, failure: Failure) -> None:
        """Errors are no part of a recording."""

    def lost(self, loss: Loss) -> None:
        symbols = [symbol for symbol in self.symbols if loss.concerns(symbol)]
        self.records.append(
            Disconnect(
                exchange=loss.exchange, local_timestamp=loss.local_timestamp, symbols=symbols
            )
        )


class Session:
    """Streams that are recorded."""

    def __init__(self, views: LiveViews) -> None:
        self._views = views
        self.source = views.source
        self._joined: dict[Listener, ViewKey] = {}

    def join(self, request: StreamRequest, listener: Listener | None = None) -> Listener:
        """Listen to a request."""
        plan = plan_stream([request], {})
        [entry] = plan.entries
        listener = listener or Listener(entry.requested or ())
        classes = plan.output.classes(entry.exchange.id)
        self._joined[listener] = self._views.join(listener, entry, classes)
        return listener

    def leave(self, listener: Listener) -> None:
        """Listen no longer."""
        self._views.leave(listener, self._joined.pop(listener))


@asynccontextmanager
async def recorded(
    place: str, directory: Path, metrics: Metrics | None = None, **settings: Any
) -> AsyncIterator[Session]:
    """Record streams of a gateway while the body runs."""
    live = LiveSettings(exchange_gateway=f"http://{place}")
    record = RecordSettings(record=directory, recorder_id="test", **settings)
    counted = (metrics or Metrics()).live
    async with live_views(live, None, counted, None, record) as views:
        yield Session(views)


async def replayed(directory: Path, request: StreamRequest) -> list[Record]:
    """Return what a recording gives, from its first minute to its last."""
    start_us, end_us = range_of(directory)
    ask = NormalizedReplayRequest(
        exchange=request.exchange,
        symbols=request.symbols,
        data_types=request.data_types,
        start=minute_text(start_us),
        end=minute_text(end_us),
        with_disconnect_messages=True,
    )
    settings = ArchiveSettings(cache_dir=directory / "cache", offline=True)
    records: list[Record] = []
    async with ArchiveSource(settings, recordings=directory) as source:
        context = SessionContext(source, system_clock)
        async for chunk in normalized_records(plan_normalized([ask], system_clock()), context):
            records += chunk
    return records


def range_of(directory: Path) -> tuple[int, int]:
    """Return when a recording begins and ends."""
    slices = sorted(path.parts[-5:] for path in (directory / "feeds").rglob("*.zst"))
    first, last = (
        parse_us(f"{year}-{month}-{day}T{hour}:{name[:2]}:00.000Z")
        for year, month, day, hour, name in (slices[0], slices[-1])
    )
    return first, last + MINUTE_US


def minute_text(us: int) -> str:
    return ms_text(us // 1000)[:16]


def to_the_millisecond(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return records with times of three digits, as live ones have them."""
    decoded = [msgspec.json.decode(msgspec.json.encode(record)) for record in records]
    for record in decoded:
        for field in TIMES & record.keys():
            record[field] = record[field][:MILLISECONDS]
    return decoded
