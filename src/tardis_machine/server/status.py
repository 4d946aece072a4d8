"""`/health-check` and `/metrics`."""

import msgspec
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from tardis_machine.server.services import Services
from tardis_machine.telemetry.exposition import expose
from tardis_machine.telemetry.health import read_health


def health_check(services: Services) -> web.Response:
    """Say how the process is doing."""
    health = read_health(services.started_us, services.clock())
    return web.Response(body=msgspec.json.encode(health), content_type="application/json")


def metrics(services: Services) -> web.Response:
    """Expose every metric to Prometheus."""
    body = expose(services.metrics.registry.collect())
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
