"""The composition root: settings in, running objects out."""

import gc
import os
import pickle
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from tardis_machine.app.settings import ServeSettings
from tardis_machine.model.errors import TardisMachineError
from tardis_machine.server.listeners import listen
from tardis_machine.server.services import Services
from tardis_machine.server.workers import listen_with_workers
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.cache import clear_cache
from tardis_machine.telemetry.metrics import Metrics
from tardis_machine.telemetry.process import watch_process

GC_THRESHOLDS = (50_000, 20, 100)
"""Chunks make many short-lived lists and no cycles; the default thresholds cost 10 % of the CPU."""


def system_clock() -> int:
    """Return now in microseconds."""
    return time.time_ns() // 1000


@asynccontextmanager
async def open_services(settings: ServeSettings, metrics: Metrics) -> AsyncIterator[Services]:
    """Open what request handlers share."""
    watch_process(metrics)
    async with ArchiveSource(settings.archive, metrics=metrics.archive) as archive:
        yield Services(
            settings=settings.server,
            archive=archive,
            metrics=metrics,
            clock=system_clock,
            started_us=system_clock(),
        )


@asynccontextmanager
async def open_server(settings: ServeSettings) -> AsyncIterator[None]:
    """Serve both ports while the body runs, in this process or in workers."""
    if settings.clear_cache:
        clear_cache(settings.archive.cache_dir)
    count = worker_count(settings)
    try:
        if count > 1:
            bootstrap = pickle.dumps(settings_of_one(settings, count))
            async with listen_with_workers(
                settings.server, count, "tardis_machine.app.worker", bootstrap
            ):
                yield
        else:
            async with open_services(settings, Metrics()) as services, listen(services):
                tune_collector()
                yield
    except OSError as error:
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


def tune_collector() -> None:
    """Keep the garbage collector away from what lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
