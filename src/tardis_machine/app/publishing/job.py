"""`publish`: replays as jobs, and events once more, through the publisher process."""

import asyncio
import tomllib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from tardis_machine.app.publishing.wiring import (
    connected_publisher,
    running_publisher,
    work_directory,
)
from tardis_machine.app.settings.commands import PublishOptions, PublishSettings
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.files.log import count_records
from tardis_machine.model.errors import SettingsError, nearest_hint
from tardis_machine.model.time import us_text
from tardis_machine.session.context import SessionContext
from tardis_machine.session.jobs import JobFile, JobRun, JobState, ReplayOrder
from tardis_machine.sinks.publisher_client import PublisherClient
from tardis_machine.sinks.publisher_link import PublishedStream
from tardis_machine.sinks.redrive import find_redrives
from tardis_machine.sinks.supervisor import PublisherProcess
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.version import __version__

SAVE_SECONDS = 1.0
SHOW_SECONDS = 0.25
ROUTE = "publish"


class WorkProgress(NamedTuple):
    """How far some work has come."""

    share: float | None
    """Between 0 and 1, where that can be said."""
    position: str
    records: int


class Work(Protocol):
    """Something to publish."""

    async def run(self, client: PublisherClient) -> None:
        """Publish it, and return when all of it is settled."""

    def progress(self) -> WorkProgress:
        """Say how far it has come."""

    def save(self) -> None:
        """Note what is settled, so that it is not published again."""


class ReplayWork:
    """Replays, with a state that outlives the process if they are a job."""

    def __init__(self, settings: PublishSettings) -> None:
        options = settings.publish
        orders = read_orders(options)
        for order in orders:
            order.plan(system_clock())
        self._settings = settings
        self._file = self._job_file(settings)
        fresh = JobState.fresh(orders)
        self.state = self._file.load(orders) if self._file else fresh
        self._run: JobRun | None = None

    async def run(self, client: PublisherClient) -> None:
        """Publish what is left of the replays."""
        async with ArchiveSource(self._settings.archive) as source:
            open_stream = partial(begin_stream, client, self._settings.publish.job)
            self._run = JobRun(self.state, SessionContext(source, system_clock), open_stream)
            saving = asyncio.create_task(self._save_often())
            try:
                await self._run.run()
            finally:
                saving.cancel()

    def progress(self) -> WorkProgress:
        """Say which minute is being replayed."""
        run = self._run
        if run is None:
            return WorkProgress(0.0, "", 0)
        return WorkProgress(run.share, us_text(run.position_us)[:16], run.records)

    def save(self) -> None:
        """Write the state of the job."""
        if self._run is not None:
            self._run.note_progress()
        if self._file is not None:
            self._file.save(self.state)

    async def _save_often(self) -> None:
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            self.save()

    @staticmethod
    def _job_file(settings: PublishSettings) -> JobFile | None:
        if settings.publish.job is None:
            return None
        folder = work_directory(settings.publishing, settings.archive) / "jobs"
        return JobFile(folder / f"{settings.publish.job}.json")


class RedriveWork:
    """Events of files, sent once more under their old identities."""

    def __init__(self, settings: PublishSettings) -> None:
        assert settings.publish.redrive is not None
        self._path = settings.publish.redrive
        self._redrives = list(find_redrives(self._path))
        active = {bus.bus for bus in settings.publishing.active}
        missing = {redrive.bus for redrive in self._redrives if redrive.bus} - active
        if missing:
            raise SettingsError(
                f"{self._path} contains dead letters of {', '.join(sorted(missing))}, "
                "which is not enabled."
            )
        self._sent = 0

    async def run(self, client: PublisherClient) -> None:
        """Hand over every block of events."""
        stream = begin_stream(client, None)
        for redrive in self._redrives:
            await stream.redrive(redrive)
            self._sent += count_records(redrive.records)
        stream.close()
        await stream.wait_until_settled()

    def progress(self) -> WorkProgress:
        """Say how many events were handed over."""
        return WorkProgress(None, str(self._path), self._sent)

    def save(self) -> None:
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
    return ReplayWork(settings)


def read_orders(options: PublishOptions) -> tuple[ReplayOrder, ...]:
    """Return the replays that flags or a file ask for."""
    flags = {
        "exchange": options.exchange,
        "data-types": options.data_types,
        "from": options.start,
        "to": options.end,
    }
    if options.file is not None:
        given = [name for name, value in flags.items() if value]
        if given:
            names = ", ".join(f"--{name}" for name in given)
            raise SettingsError(f"Give replays by {options.file} or by {names}, not both.")
        return read_job_file(options.file)
    missing = [f"--{name} is required." for name, value in flags.items() if not value]
    if missing:
        raise SettingsError(*missing, "Or name a TOML file with [[replay]] tables, or --redrive.")
    assert options.exchange is not None
    assert options.start is not None
    assert options.end is not None
    return (
        ReplayOrder(
            exchange=options.exchange,
            data_types=options.data_types,
            start=options.start,
            end=options.end,
            symbols=options.symbols,
        ),
    )


def read_job_file(path: Path) -> tuple[ReplayOrder, ...]:
    """Read the `[[replay]]` tables of a TOML file; SettingsError with every problem."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read: {error}.") from error
    tables = content.pop("replay", None)
    problems = [f"{path}: unknown key '{key}'.{nearest_hint(key, ['replay'])}" for key in content]
    if not isinstance(tables, list) or not tables:
        problems.append(f"{path}: no [[replay]] table.")
        raise SettingsError(*problems)
    orders = [_read_order(path, number, table, problems) for number, table in enumerate(tables, 1)]
    if problems:
        raise SettingsError(*problems)
    return tuple(order for order in orders if order is not None)


def _read_order(path: Path, number: int, table: Any, problems: list[str]) -> ReplayOrder | None:
    try:
        return msgspec.convert(table, ReplayOrder)
    except msgspec.ValidationError as error:
        problems.append(f"{path}: replay {number}: {error}.")
        return None


def begin_stream(client: PublisherClient, job: str | None) -> PublishedStream:
    """Begin a stream that never drops anything."""
    meta = {
        "request_id": uuid.uuid4().hex,
        "session_id": job or uuid.uuid4().hex,
        "transport": "job",
        "route": ROUTE,
        "app_version": __version__,
    }
    return client.stream(Origin.REPLAY, meta, waits=True)


@asynccontextmanager
async def open_publishing(
    settings: PublishSettings,
) -> AsyncIterator[tuple[PublisherProcess, PublisherClient]]:
    """Run the publisher process and a connection to it while the body runs."""
    async with running_publisher(settings.publishing, settings.logs, settings.archive) as process:
        assert process is not None
        async with connected_publisher(process.path, settings.publishing) as client:
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
        return running.done()
    finally:
        for task in (running, stopping):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
