"""The sink of every bus, imported when it is used."""

import importlib
from collections.abc import Callable

from tardis_machine.buses.carriers import carrier
from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.sinks.base import Sink

_SINKS = {
    "console": "console:ConsoleSink",
    "event-hubs": "event_hubs.sink:EventHubsSink",
    "files": "files.sink:FilesSink",
    "kafka": "kafka.sink:KafkaSink",
    "kinesis": "kinesis.sink:KinesisSink",
    "nats": "nats.sink:NatsSink",
    "redis": "redis.sink:RedisSink",
}
"""Where the sink of a bus is, below this package."""


def make_sink(bus: BusSettings, delivery: EventBusSettings) -> Sink:
    """Return the sink of a bus; this is where its client is imported."""
    carried = carrier(bus)
    module, _, name = _SINKS[carried.bus].partition(":")
    factory: Callable[[BusSettings, EventBusSettings], Sink] = getattr(
        importlib.import_module(f"tardis_machine.sinks.{module}"), name
    )
    return factory(carried, delivery)
