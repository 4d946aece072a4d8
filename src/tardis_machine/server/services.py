"""What request handlers share."""

import os
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web

from tardis_machine.bronze.series import Origin
from tardis_machine.model.requests import NormalizedReplayRequest
from tardis_machine.model.time import Clock
from tardis_machine.server.guards.admission import Admission
from tardis_machine.server.guards.arrivals import Arrivals
from tardis_machine.server.guards.limits import check_levels, check_normalized_size
from tardis_machine.server.guards.sockets import limit_unsent
from tardis_machine.server.settings import ServerSettings
from tardis_machine.session.contents import plan_contents, recorded_contents
from tardis_machine.session.context import SessionContext
from tardis_machine.session.live.plan import StreamPlan
from tardis_machine.session.live.views import LiveViews
from tardis_machine.session.plan import NormalizedPlan, plan_normalized
from tardis_machine.sinks.publisher.client import PublishedStream, PublisherClient
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.metrics import Metrics
from tardis_machine.telemetry.replay_metrics import ServerMetrics
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
    live: LiveViews
    metrics: Metrics
    started_us: int
    admission: Admission
    arrivals: Arrivals = field(default_factory=Arrivals)
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

    def copy(self, plan: NormalizedPlan, transport: str, route: str) -> PublishedStream | None:
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
        made = plan_contents(plan, self.clock())
        contents = recorded_contents(made, plan, self.session.source)
        return self.publisher.stream(Origin.REPLAY, meta, contents=contents)

    @property
    def session_id(self) -> str:
        """Return an id of this run of the process."""
        return f"{os.getpid()}-{self.started_us}"

    async def begin(self, request: web.Request) -> None:
        """Wait for the turn of an admitted request."""
        if self.admission.is_crowded and request.transport is not None:
            limit_unsent(request.transport)
        await self.session.source.turns.wait(is_new=True)

    def plan(self, requests: Sequence[NormalizedReplayRequest]) -> NormalizedPlan:
        """Check a normalized request; unknown data types are logged, the API ignores them."""
        check_normalized_size(requests, self.settings)
        plan = plan_normalized(requests, self.clock())
        check_levels(plan, self.settings)
        self.warn_of_ignored(plan)
        if plan.empty_types:
            log.warning("data types that ask for nothing", data_types=plan.empty_types)
        return plan

    def warn_of_ignored(self, plan: NormalizedPlan | StreamPlan) -> None:
        """Log unknown data types; the API ignores them."""
        if plan.ignored_types:
            log.warning("unknown data types ignored", data_types=plan.ignored_types)
