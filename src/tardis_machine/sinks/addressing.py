"""Envelopes to events: each with its route on one bus."""

from collections.abc import Iterable, Sequence

from tardis_machine.bronze.envelope import Envelope
from tardis_machine.bronze.routing import Router
from tardis_machine.sinks.base import Event


def address(
    envelopes: Sequence[Envelope],
    router: Router,
    event_ids: Iterable[str],
    delivery_ids: Iterable[str],
    now: float,
) -> list[Event]:
    """Return the events of envelopes that a bus takes; both kinds of ids are one per envelope."""
    routes = router.routes
    events: list[Event] = []
    add = events.append
    for envelope, event_id, delivery_id in zip(envelopes, event_ids, delivery_ids, strict=True):
        series = envelope.series
        route = series.derived[routes]
        if route is not None:
            add(Event(route, series, envelope.data, event_id, delivery_id, now))
    return events
