"""What request handlers share."""

import os
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from tardis_machine.bronze.series import Origin
from tardis_machine.model.time import Clock
from tardis_machine.server.settings import ServerSettings
from tardis_machine.session.context import SessionContext
from tardis_machine.session.plan import NormalizedPlan
from tardis_machine.sinks.publisher_client import PublisherClient
from tardis_machine.sinks.publisher_link import PublishedStream
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.metrics import Metrics, ServerMetrics
from tardis_machine.version import __version__

log = get_logger(__name__)


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
    session: SessionContext
    metrics: Metrics
    started_us: int
    publisher: PublisherClient | None = None
    """Takes a copy of normalized streams; None: nothing is published."""

    @property
    def clock(self) -> Clock:
        """Return the clock."""
        return self.session.clock

    def meter(self, route: str, exchanges: Iterable[str]) -> StreamMeter:
        """Return the meter of a stream; one over several exchanges is counted as `several`."""
        names = set(exchanges)
        label = names.pop() if len(names) == 1 else "several"
        return StreamMeter(self.metrics.server, route, label)

    def copy(self, transport: str, route: str) -> PublishedStream | None:
        """Begin the copy of a stream for the publisher, if anything is published."""
        if self.publisher is None:
            return None
        meta = {
            "request_id": uuid.uuid4().hex,
            "session_id": self.session_id,
            "transport": transport,
            "route": route,
            "app_version": __version__,
        }
        return self.publisher.stream(Origin.REPLAY, meta)

    @property
    def session_id(self) -> str:
        """Return an id of this run of the process."""
        return f"{os.getpid()}-{self.started_us}"

    def warn_of_ignored(self, plan: NormalizedPlan) -> None:
        """Log unknown data types; the API ignores them."""
        if plan.ignored_types:
            log.warning("unknown data types ignored", data_types=plan.ignored_types)
