"""`/health-check` and `/metrics`."""

from collections.abc import Mapping, Sequence

import msgspec
from aiohttp import web
from msgspec import UNSET, UnsetType

from tardis_machine.server.services import Services
from tardis_machine.sinks.reporting.status import BusStatus, Stranded
from tardis_machine.telemetry.health import BusHealth, StrandedBacklog, read_health
from tardis_machine.telemetry.masking import hide_in_text


def health_check(services: Services) -> web.Response:
    """Say how the process is doing."""
    status = services.publisher.status if services.publisher else None
    health = read_health(
        services.started_us,
        services.clock(),
        bus_health(status.buses if status else {}),
        stranded_health(status.stranded if status else ()),
    )
    is_well = services.publisher is None or not services.publisher.has_failed
    return web.Response(
        body=msgspec.json.encode(health),
        content_type="application/json",
        status=200 if is_well else 503,
    )


def bus_health(buses: Mapping[str, BusStatus]) -> dict[str, BusHealth] | UnsetType:
    """Return what is said about the buses; nothing when none is on."""
    if not buses:
        return UNSET
    return {
        name: BusHealth(
            state=status.state.value,
            queued=status.queued,
            parked=status.parked,
            last_ack_age_ms=status.last_ack_age_ms,
            last_error=status.last_error and hide_in_text(status.last_error),
        )
        for name, status in buses.items()
    }


def stranded_health(stranded: Sequence[Stranded]) -> list[StrandedBacklog] | UnsetType:
    """Return what waits for endpoints that are not configured; nothing when there is none."""
    if not stranded:
        return UNSET
    return [
        StrandedBacklog(bus=each.bus, endpoint=hide_in_text(each.endpoint), events=each.events)
        for each in stranded
    ]


def metrics(services: Services) -> web.Response:
    """Expose every metric to Prometheus."""
    # Servers start without the library, and many are never asked.
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    from tardis_machine.telemetry.exposition import expose, parse_families

    families = services.metrics.registry.collect()
    if services.publisher is not None:
        # The publisher process counts for all workers.
        families = [*families, *parse_families(services.publisher.status.metrics.decode())]
    body = expose(families)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
