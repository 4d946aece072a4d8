"""Publishing in the composition: the process that publishes, and who writes for it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tardis_machine.app.publishing.bootstrap import Bootstrap
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.model.user_folders import cache_folder
from tardis_machine.sinks.publisher.address import PublisherAddress
from tardis_machine.sinks.publisher.client import PublisherClient
from tardis_machine.sinks.publisher.process import PublisherProcess, running_process
from tardis_machine.sinks.publisher.room import OnWaited, ignore
from tardis_machine.sinks.storage.directory import LogReader
from tardis_machine.sources.cache import shared_cache
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.logs import LogSettings

log = get_logger(__name__)

PROCESS_MODULE = "tardis_machine.app.publishing.process"
STATE_HOME, STATE_FOLDER = "XDG_STATE_HOME", "tardis-machine/event-bus"
OLD_FOLDER = "event-bus"
"""Below the cache, where the version before kept what it had to remember."""


def work_directory(publishing: PublishingSettings) -> Path:
    """Return where logs, dead letters and the state of jobs are kept."""
    given = publishing.event_bus.spool_dir
    if given is not None:
        return given
    home = os.environ.get(STATE_HOME)
    return (Path(home) if home else Path.home() / ".local" / "state") / STATE_FOLDER


def old_folders(cache_dir: Path) -> list[Path]:
    """Return the folders below caches where the version before may have kept its state."""
    caches = [cache_dir]
    with suppress(OSError):
        # The default of the version before, unless somebody else made it.
        if cache_dir == cache_folder() and shared_cache().stat().st_uid == os.geteuid():
            caches.append(shared_cache())
    return [cache / OLD_FOLDER for cache in caches]


def old_places(publishing: PublishingSettings, cache_dir: Path) -> tuple[Path, ...]:
    """Return where the version before may have kept spools."""
    places = [work_directory(publishing)]
    if publishing.event_bus.spool_dir is None:
        places += old_folders(cache_dir)
    own = (publishing.delivery(bus).spool_dir for bus in publishing.active)
    return tuple(dict.fromkeys([*places, *(each for each in own if each is not None)]))


@asynccontextmanager
async def running_publisher(
    publishing: PublishingSettings, logs: LogSettings, cache_dir: Path
) -> AsyncIterator[PublisherProcess | None]:
    """Run the publisher process while the body runs; None when no bus is on.

    Raises:
        BusNotReachedError: a required bus was not reached.
    """
    for warning in publishing.warnings():
        log.warning("option has no effect", detail=warning)
    if not publishing.active:
        yield None
        return
    bootstrap = Bootstrap(publishing, logs, old_places(publishing, cache_dir))
    drain_ms = max(publishing.delivery(bus).drain_timeout_ms for bus in publishing.active)
    async with running_process(
        PROCESS_MODULE, bootstrap, work_directory(publishing), drain_ms / 1000
    ) as process:
        yield process


@asynccontextmanager
async def publisher_client(
    address: PublisherAddress | None,
    publishing: PublishingSettings,
    worker: str | None = None,
    on_waited: OnWaited = ignore,
) -> AsyncIterator[PublisherClient | None]:
    """Open a log for the publisher process while the body runs; None when there is none.

    Args:
        address: of the publisher.
        publishing: the settings of publishing.
        worker: number of the worker process that this one is.
        on_waited: called with a bus at its bound and for how long a stream waited for it.
    """
    if address is None:
        yield None
        return
    settings = publishing.event_bus
    deliveries = [(bus, publishing.delivery(bus)) for bus in publishing.active]
    readers = {
        LogReader(bus.bus, bus.endpoint): delivery.backlog_max_bytes for bus, delivery in deliveries
    }
    required = [bus.bus for bus, delivery in deliveries if delivery.startup == "require"]
    async with PublisherClient(
        address,
        settings,
        settings.producer_id,
        readers,
        worker=worker,
        required=required,
        on_waited=on_waited,
    ) as client:
        yield client
