"""What request handlers share."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import structlog

from tardis_machine.model.time import Clock
from tardis_machine.server.settings import ServerSettings
from tardis_machine.session.plan import NormalizedPlan
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.telemetry.metrics import Metrics, ServerMetrics

log = structlog.get_logger(__name__)


class StreamMeter:
    """Counts what one response or connection sends."""

    def __init__(self, metrics: ServerMetrics, route: str, exchange: str) -> None:
        self._messages = metrics.messages.labels(route, exchange)
        self._bytes = metrics.sent_bytes.labels(route)
        self._active = metrics.active_streams.labels(route)
        self._first = metrics.first_message.labels(route)
        self._started: float | None = time.monotonic()

    def __enter__(self) -> Self:
        self._active.inc()
        return self

    def __exit__(self, *_: object) -> None:
        self._active.dec()

    def sent(self, messages: int, size_bytes: int) -> None:
        """Count one chunk."""
        if self._started is not None:
            self._first.observe(time.monotonic() - self._started)
            self._started = None
        self._messages.inc(messages)
        self._bytes.inc(size_bytes)


@dataclass(frozen=True, kw_only=True)
class Services:
    """The running parts a request needs."""

    settings: ServerSettings
    archive: ArchiveSource
    metrics: Metrics
    clock: Clock
    started_us: int

    def meter(self, route: str, exchanges: Iterable[str]) -> StreamMeter:
        """Return the meter of a stream; one over several exchanges is counted as `several`."""
        names = set(exchanges)
        label = names.pop() if len(names) == 1 else "several"
        return StreamMeter(self.metrics.server, route, label)

    def warn_of_ignored(self, plan: NormalizedPlan) -> None:
        """Log data types that nobody knows; the API ignores them."""
        if plan.ignored_types:
            log.warning("unknown data types ignored", data_types=plan.ignored_types)
