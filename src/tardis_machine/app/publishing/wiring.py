"""Publishing in the composition: the process that publishes, and who hands it records."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tardis_machine.app.publishing.bootstrap import Bootstrap
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.sinks.publisher_client import PublisherClient
from tardis_machine.sinks.supervisor import PublisherProcess, running_process
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.logs import LogSettings

log = get_logger(__name__)

PROCESS_MODULE = "tardis_machine.app.publishing.process"
WORKER_CLOSE_SECONDS = 4.0
"""How long a worker waits at its end for what it published to be settled; the parent waits 5."""


def work_directory(publishing: PublishingSettings, archive: ArchiveSettings) -> Path:
    """Return where spools, dead letters and jobs are kept."""
    return publishing.event_bus.spool_dir or archive.cache_dir / "event-bus"


@asynccontextmanager
async def running_publisher(
    publishing: PublishingSettings, logs: LogSettings, archive: ArchiveSettings
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
    bootstrap = Bootstrap(publishing, logs, work_directory(publishing, archive))
    drain_ms = max(publishing.delivery(bus).drain_timeout_ms for bus in publishing.active)
    async with running_process(PROCESS_MODULE, bootstrap, drain_ms / 1000) as process:
        yield process


@asynccontextmanager
async def connected_publisher(
    path: Path | None, publishing: PublishingSettings, worker: str | None = None
) -> AsyncIterator[PublisherClient | None]:
    """Connect to the publisher process while the body runs; None when there is none.

    Args:
        path: its socket.
        publishing: the settings of publishing.
        worker: number of the worker process that this one is.
    """
    if path is None:
        yield None
        return
    settings = publishing.event_bus
    producer_id = settings.producer_id if worker is None else f"{settings.producer_id}-w{worker}"
    limit = None if worker is None else WORKER_CLOSE_SECONDS
    buses = [bus.bus for bus in publishing.active]
    required = [
        bus.bus for bus in publishing.active if publishing.delivery(bus).startup == "require"
    ]
    async with PublisherClient(
        path, settings, producer_id, buses, limit, required=required
    ) as client:
        yield client
