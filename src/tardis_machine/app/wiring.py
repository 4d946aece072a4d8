"""The composition root: settings in, running objects out."""

import os
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from tardis_machine.app.collector import regular_collection
from tardis_machine.app.open_files import raise_file_limit
from tardis_machine.app.publishing.live import live_views
from tardis_machine.app.publishing.wiring import publisher_client, running_publisher
from tardis_machine.app.settings.commands import ServeSettings
from tardis_machine.bronze.series import Origin
from tardis_machine.model.errors import TardisMachineError
from tardis_machine.server.guards.access import warn_of_open_network
from tardis_machine.server.guards.admission import Admission
from tardis_machine.server.services import Services
from tardis_machine.session.context import SessionContext
from tardis_machine.sinks.publisher.address import PublisherAddress
from tardis_machine.sinks.publisher.process import PublisherProcess
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.cache import clear_cache, own_cache
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.telemetry.metrics import Metrics
from tardis_machine.telemetry.process import watch_process


@asynccontextmanager
async def open_services(
    settings: ServeSettings,
    metrics: Metrics,
    publisher: PublisherAddress | None = None,
    worker: str | None = None,
) -> AsyncIterator[Services]:
    """Open what request handlers share.

    Args:
        settings: of the server.
        metrics: of this process.
        publisher: where the publisher process is, if there is one.
        worker: number of the worker process that this one is.
    """
    watch_process(metrics)

    def count_wait(bus: str, seconds: float) -> None:
        metrics.event_bus.blocked.labels(bus, Origin.REPLAY.value).inc(seconds)

    async with (
        publisher_client(publisher, settings.publishing, worker, count_wait) as client,
        ArchiveSource(
            settings.archive, metrics=metrics.archive, recordings=settings.recording.record
        ) as archive,
        live_views(
            settings.live,
            settings.archive.http_proxy,
            metrics.live,
            client,
            settings.recording,
            is_worker=worker is not None,
        ) as live,
    ):
        yield Services(
            settings=settings.server,
            session=SessionContext(archive, system_clock, metrics.replay),
            live=live,
            metrics=metrics,
            admission=Admission(settings.server.max_streams, metrics.server),
            started_us=system_clock(),
            publisher=client,
        )


@asynccontextmanager
async def open_server(settings: ServeSettings) -> AsyncIterator[PublisherProcess | None]:
    """Serve both ports while the body runs, and publish, if a bus is on.

    Raises:
        BusNotReachedError: a required bus was not reached.
    """
    raise_file_limit()
    warn_of_open_network(settings.server)
    # Here too: workers that fail at their start are started again.
    own_cache(settings.archive.cache_dir)
    if settings.clear_cache:
        clear_cache(settings.archive.cache_dir)
    async with (
        running_publisher(
            settings.publishing, settings.logs, settings.archive.cache_dir
        ) as publisher,
        _open_ports(settings, publisher.address if publisher else None),
    ):
        try:
            yield publisher
        finally:
            if publisher is not None:
                # What is left is delivered while the ports close.
                publisher.drain()


@asynccontextmanager
async def _open_ports(
    settings: ServeSettings, publisher: PublisherAddress | None
) -> AsyncIterator[None]:
    """Serve both ports while the body runs, in this process or in workers."""
    count = worker_count(settings)
    is_open = False
    try:
        if count > 1:
            from tardis_machine.server.workers import listen_with_workers

            bootstrap = pickle.dumps((settings_of_one(settings, count), publisher))
            async with listen_with_workers(
                settings.server, count, "tardis_machine.app.worker", bootstrap
            ):
                is_open = True
                yield
        else:
            # The parent of workers answers no requests, and needs no HTTP library.
            from tardis_machine.app.reuse import Reuse
            from tardis_machine.server.listeners import listen

            async with open_services(settings, Metrics(), publisher) as services, listen(services):
                is_open = True
                async with regular_collection(Reuse(services.metrics.values)):
                    yield
    except OSError as error:
        if is_open:
            raise
        raise TardisMachineError(
            f"Cannot listen on {settings.server.host}, ports {settings.server.port} and "
            f"{settings.server.port + 1}: {error.strerror or error}. Choose others with --port."
        ) from error


def worker_count(settings: ServeSettings) -> int:
    """Return how many processes serve requests."""
    if settings.server.cluster_mode or settings.server.workers == 0:
        return len(os.sched_getaffinity(0))
    return settings.server.workers


def settings_of_one(settings: ServeSettings, count: int) -> ServeSettings:
    """Return the settings of one worker, whose share of the limits is its own."""
    share = max(1, settings.archive.max_concurrent_requests // count)
    return replace(settings, archive=replace(settings.archive, max_concurrent_requests=share))
