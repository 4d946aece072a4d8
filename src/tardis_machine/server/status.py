"""`/health-check` and `/metrics`."""

from collections.abc import Iterable, Mapping

import msgspec
from aiohttp import web
from msgspec import UNSET, UnsetType
from prometheus_client import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.parser import text_string_to_metric_families

from tardis_machine.server.services import Services
from tardis_machine.sinks.status import BusStatus
from tardis_machine.telemetry.exposition import expose
from tardis_machine.telemetry.health import BusHealth, read_health


def health_check(services: Services) -> web.Response:
    """Say how the process is doing."""
    buses = services.publisher.status.buses if services.publisher else {}
    health = read_health(services.started_us, services.clock(), bus_health(buses))
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
            spooled=status.spooled,
            last_ack_age_ms=status.last_ack_age_ms,
            last_error=status.last_error,
        )
        for name, status in buses.items()
    }


def metrics(services: Services) -> web.Response:
    """Expose every metric to Prometheus."""
    families: Iterable[Metric] = services.metrics.registry.collect()
    if services.publisher is not None:
        # The publisher process counts for all workers.
        published = text_string_to_metric_families(services.publisher.status.metrics.decode())
        families = [*families, *published]
    body = expose(families)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
