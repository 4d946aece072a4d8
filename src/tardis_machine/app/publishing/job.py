"""`publish`: replays as jobs, and events once more, through the publisher process."""

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from tardis_machine.app.publishing.orders import StreamOrder, read_orders
from tardis_machine.app.publishing.wiring import (
    old_folders,
    publisher_client,
    running_publisher,
    work_directory,
)
from tardis_machine.app.settings.commands import PublishSettings
from tardis_machine.bronze.content import NO_CONTENTS, Content
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.files.log import count_records
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.time import us_text
from tardis_machine.session.context import SessionContext
from tardis_machine.session.jobs import JobFile, JobRun, JobState
from tardis_machine.session.orders import ReplayOrder
from tardis_machine.session.silent_symbols import SilentSymbols
from tardis_machine.sinks.publisher.client import PublishedStream, PublisherClient
from tardis_machine.sinks.publisher.process import PublisherProcess
from tardis_machine.sinks.publisher.redrive import buses_in, find_redrives
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.version import __version__

log = get_logger(__name__)

SAVE_SECONDS = 1.0
SHOW_SECONDS = 0.25
ROUTE = "publish"
JOBS = "jobs"
WARM_UP_NOTICE = (
    "Reading {minutes:,} minutes before the first event: books, tickers and computed types need "
    "what came since 00:00 UTC. --no-warm-up begins at the start and marks what may be incomplete."
)


class WorkProgress(NamedTuple):
    """How far some work has come."""

    share: float | None
    """Between 0 and 1, where that can be said."""
    position: str
    records: int


class Work(Protocol):
    """Something to publish."""

    is_endless: bool
    """It is done when it is stopped."""

    @property
    def notice(self) -> str:
        """Return what its user should know before it runs; empty: nothing."""

    @property
    def silent(self) -> Sequence[SilentSymbols]:
        """Return which symbols of which replays never came."""

    async def run(self, client: PublisherClient) -> None:
        """Publish it, and return when every bus has settled all of it."""

    def progress(self) -> WorkProgress:
        """Say how far it has come."""

    async def save(self) -> None:
        """Note what is safe in the log, so that it is not published again."""


class ReplayWork:
    """Replays, with a state that outlives the process if they are a job."""

    is_endless = False

    def __init__(self, settings: PublishSettings, orders: Sequence[ReplayOrder]) -> None:
        for order in orders:
            order.plan(system_clock())
        self._settings = settings
        self._file = self._job_file(settings)
        fresh = JobState.fresh(orders)
        self.state = self._file.load(orders) if self._file else fresh
        self._run: JobRun | None = None
        self._saving = asyncio.Lock()
        self._is_unsaved = False
        """The last attempt to save the checkpoint failed."""

    @property
    def notice(self) -> str:
        """Say how long it takes to the first event."""
        now_us = system_clock()
        minutes = sum(
            order.plan(now_us, progress.settled_us).warm_up_minutes
            for order, progress in zip(self.state.orders, self.state.progress, strict=True)
            if not progress.is_done
        )
        return WARM_UP_NOTICE.format(minutes=minutes) if minutes else ""

    async def run(self, client: PublisherClient) -> None:
        """Publish what is left of the replays."""
        recordings = self._settings.recording.record
        async with ArchiveSource(self._settings.archive, recordings=recordings) as source:
            open_stream = partial(begin_stream, client, self._settings.publish.job)
            self._run = JobRun(self.state, SessionContext(source, system_clock), open_stream)
            saving = asyncio.create_task(self._save_often())
            try:
                await self._run.run()
            finally:
                saving.cancel()
        await self.save()
        await client.wait_until_delivered()

    def progress(self) -> WorkProgress:
        """Say which minute is being replayed."""
        run = self._run
        if run is None:
            return WorkProgress(0.0, "", 0)
        minute = us_text(run.position_us)[:16]
        position = f"{minute} warming up" if run.is_warming_up else minute
        return WorkProgress(run.share, position, run.records)

    @property
    def silent(self) -> Sequence[SilentSymbols]:
        """Return which symbols of which replays never came."""
        return self._run.silent if self._run else ()

    async def save(self) -> None:
        """Write the state of the job, after what it stands for is flushed to disk."""
        if self._file is None:
            return
        async with self._saving:
            try:
                if self._run is not None:
                    await self._run.note_progress()
                self._file.save(self.state)
                self._is_unsaved = False
            except OSError as error:
                # The one before holds: a job that is started again then repeats more.
                if not self._is_unsaved:
                    log.warning("checkpoint of the job could not be saved", error=error.strerror)
                self._is_unsaved = True

    async def _save_often(self) -> None:
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            await self.save()

    @staticmethod
    def _job_file(settings: PublishSettings) -> JobFile | None:
        if settings.publish.job is None:
            return None
        name = f"{settings.publish.job}.json"
        path = work_directory(settings.publishing) / JOBS / name
        for folder in old_folders(settings.archive.cache_dir):
            take_over_job(folder / JOBS / name, path)
        return JobFile(path)


class StreamWork:
    """Live streams, until somebody stops them."""

    is_endless = True
    notice = ""
    silent: Sequence[SilentSymbols] = ()

    def __init__(self, settings: PublishSettings, orders: Sequence[StreamOrder]) -> None:
        # Replays need no WebSocket client.
        from tardis_machine.app.publishing.live import LiveStreams

        requests = [order.request() for order in orders]
        self._streams = LiveStreams(
            requests, settings.live, settings.archive.http_proxy, settings.recording
        )

    async def run(self, client: PublisherClient) -> None:
        """Publish what comes."""
        await self._streams.run(client)

    def progress(self) -> WorkProgress:
        """Say how old the latest record of each exchange is."""
        lags = (f"{name} {seconds:.1f} s ago" for name, seconds in self._streams.lags.items())
        return WorkProgress(None, ", ".join(lags) or "connecting", self._streams.records)

    async def save(self) -> None:
        """Do nothing: a stream goes on with what the exchange sends then."""


class RedriveWork:
    """Events of files, sent once more under their old identities."""

    is_endless = False
    notice = ""
    silent: Sequence[SilentSymbols] = ()

    def __init__(self, settings: PublishSettings) -> None:
        assert settings.publish.redrive is not None
        self._path = settings.publish.redrive
        # Whether it can be read is said before anything is started.
        next(find_redrives(self._path), None)
        active = {bus.bus for bus in settings.publishing.active}
        missing = buses_in(self._path) - active
        if missing:
            raise SettingsError(
                f"{self._path} contains dead letters of {', '.join(sorted(missing))}, "
                "which is not enabled."
            )
        self._sent = 0

    async def run(self, client: PublisherClient) -> None:
        """Hand over every block of events."""
        streams: dict[str, PublishedStream] = {}
        for redrive in find_redrives(self._path):
            stream = streams.get(redrive.bus)
            if stream is None:
                stream = streams[redrive.bus] = begin_stream(client, None, bus=redrive.bus)
            count = count_records(redrive.records)
            await stream.publish_records(redrive.records, count)
            self._sent += count
        for stream in streams.values():
            stream.close()
        await client.wait_until_delivered()

    def progress(self) -> WorkProgress:
        """Say how many events were handed over."""
        return WorkProgress(None, str(self._path), self._sent)

    async def save(self) -> None:
        """Do nothing: the file stays as it is."""


def load_work(settings: PublishSettings) -> Work:
    """Return what is to be published; raise with everything that is wrong with the request."""
    if not settings.publishing.active:
        anchors = (
            f"{bus.bus}-{anchor}".replace("_", "-")
            for bus in settings.publishing.buses
            for anchor in bus.anchors
        )
        raise SettingsError(f"publish requires a bus: set one of {', '.join(anchors)}.")
    if settings.publish.redrive is not None:
        return RedriveWork(settings)
    orders = read_orders(settings.publish)
    if orders.streams:
        return StreamWork(settings, orders.streams)
    return ReplayWork(settings, orders.replays)


def take_over_job(old: Path, new: Path) -> None:
    """Copy the state of a job from where the version before kept it."""
    if old.exists() and not new.exists():
        new.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(old, new)


def begin_stream(
    client: PublisherClient,
    job: str | None,
    contents: Mapping[str, Content] = NO_CONTENTS,
    bus: str = "",
) -> PublishedStream:
    """Begin a stream that never drops anything."""
    meta = {
        "request_id": uuid.uuid4().hex,
        "session_id": job or uuid.uuid4().hex,
        "transport": "job",
        "route": ROUTE,
        "app_version": __version__,
    }
    return client.stream(Origin.REPLAY, meta, contents=contents, waits=True, bus=bus)


@asynccontextmanager
async def open_publishing(
    settings: PublishSettings,
) -> AsyncIterator[tuple[PublisherProcess, PublisherClient]]:
    """Run the publisher process and a connection to it while the body runs."""
    cache_dir = settings.archive.cache_dir
    async with running_publisher(settings.publishing, settings.logs, cache_dir) as process:
        assert process is not None
        async with publisher_client(process.address, settings.publishing) as client:
            assert client is not None
            try:
                yield process, client
            finally:
                process.drain()


async def run_work(
    work: Work, client: PublisherClient, stop: asyncio.Event, show: Callable[[], None]
) -> bool:
    """Publish until it is done or stopped; return whether it is done."""
    running = asyncio.create_task(work.run(client), name="publish")
    stopping = asyncio.create_task(stop.wait())
    try:
        while not (running.done() or stopping.done()):
            await asyncio.wait(
                {running, stopping}, timeout=SHOW_SECONDS, return_when="FIRST_COMPLETED"
            )
            show()
        if running.done():
            running.result()
        return running.done() or work.is_endless
    finally:
        for task in (running, stopping):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
