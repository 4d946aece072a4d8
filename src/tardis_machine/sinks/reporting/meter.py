"""What one bus counts: for Prometheus, for health checks and for the final report."""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from tardis_machine.bronze.cases import AnyCase
from tardis_machine.bronze.series import Series
from tardis_machine.buses.reasons import Reason
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.reporting.status import BusState, Totals
from tardis_machine.telemetry.declarations import BoundedLabel
from tardis_machine.telemetry.event_bus_metrics import EventBusMetrics

_series_of = attrgetter("series")
_route_of = attrgetter("route")
_CACHED_CHILDREN = 4096


class Meter:
    """Counts for one bus."""

    def __init__(self, bus: str, metrics: EventBusMetrics) -> None:
        self.bus = bus
        self.totals = Totals()
        self.removed_letters = 0
        self.last_ack_at: float | None = None
        self._metrics = metrics
        self._targets = BoundedLabel()
        self._child = lru_cache(maxsize=_CACHED_CHILDREN)(self._make_child)
        self._state: BusState | None = None

    def offered(self, series: Mapping[Series, int]) -> None:
        """Count events offered to the bus."""
        for each, count in series.items():
            self._child("events", each.case.value, each.origin.value).inc(count)

    def filtered(self, cases: Mapping[AnyCase, int]) -> None:
        """Count events left out by include and exclude lists."""
        for case, count in cases.items():
            self._child("filtered", case.value).inc(count)

    def enqueued(self, count: int) -> None:
        """Count events that were accepted for the bus."""
        self._child("enqueued").inc(count)

    def published(self, events: Sequence[Event], data_bytes: int) -> None:
        """Count acknowledged events, whose envelopes have so many bytes."""
        self.last_ack_at = time.time()
        routes = dict(zip(map(_series_of, events), map(_route_of, events), strict=True))
        for series, count in count_series(events).items():
            target = self._targets.value(routes[series].destination)
            self._child("published", target, series.case.value).inc(count)
        destinations = {route.destination for route in routes.values()}
        for destination, size in _sizes(destinations, events, data_bytes).items():
            self._child("published_bytes", self._targets.value(destination)).inc(size)
        # One observation per batch and its oldest event: one per event costs more than sending it.
        age = time.time() - events[0].accepted_at
        self._child("delivery", events[0].series.origin.value).observe(age)

    def sent(self, events: Sequence[Event], outcome: str, seconds: float) -> None:
        """Count one call of the sink."""
        target = self._targets.value(events[0].route.destination)
        self._child("batches", target, outcome).inc()
        self._child("batch_records").observe(len(events))
        self._child("send").observe(seconds)

    def retried(self, reasons: Mapping[Reason, int]) -> None:
        """Count events that will be sent again, by reason."""
        for reason, count in reasons.items():
            self.totals.retries += count
            self._child("retries", reason or "unknown").inc(count)

    def redelivered(self, count: int) -> None:
        """Count events sent again although they may have been stored."""
        self.totals.redelivered += count
        self._child("redelivered").inc(count)

    def duplicates(self, count: int) -> None:
        """Count events the bus had already."""
        self.totals.duplicates += count
        self._child("duplicates").inc(count)

    def throttled(self, target: str, count: int) -> None:
        """Count events rejected by a rate limit."""
        self._child("throttled", self._targets.value(target)).inc(count)

    def dead(self, reason: Reason) -> None:
        """Count one dead letter."""
        self._child("dead_letters", reason or "unknown").inc()

    def dropped(self, reason: Reason, cases: Mapping[AnyCase, int]) -> None:
        """Count lost events."""
        for case, count in cases.items():
            self._child("dropped", reason, case.value).inc(count)

    def lost(self, reason: Reason, count: int) -> None:
        """Count lost events that cannot be read any more."""
        self._child("dropped", reason, "unknown").inc(count)

    def lost_letters(self, count: int) -> None:
        """Count dead letters that were removed to make room for newer ones."""
        self.removed_letters += count
        self.lost(Reason.DEAD_LETTER_OVERFLOW, count)

    def connected(self, outcome: str) -> None:
        """Count one attempt to connect."""
        self._child("connects", outcome).inc()

    def gauges(self, values: Mapping[str, float]) -> None:
        """Set the gauges of queue and spool."""
        for name, value in values.items():
            self._child(name).set(value)
        if self.last_ack_at is not None:
            self._child("last_ack").set(self.last_ack_at)

    def state(self, state: BusState) -> None:
        """Set the gauge of the state."""
        for each in BusState if self._state is None else (self._state, state):
            self._child("state", each.value).set(each is state)
        self._state = state

    def _make_child(self, name: str, *labels: str) -> Any:
        return getattr(self._metrics, name).labels(self.bus, *labels)


def count_series(events: Iterable[Event]) -> Counter[Series]:
    """Count events by series."""
    return Counter(map(_series_of, events))


def _sizes(
    destinations: Collection[str], events: Iterable[Event], data_bytes: int
) -> dict[str, int]:
    """Return the bytes for each destination; all of them together are known."""
    if len(destinations) == 1:
        return dict.fromkeys(destinations, data_bytes)
    sizes: Counter[str] = Counter()
    for event in events:
        sizes[event.route.destination] += len(event.data)
    return sizes
