"""Readers of buses: each turns the settings that publishing has into a stream of records."""

import importlib
from collections.abc import Callable

from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import BusSettings
from tardis_machine.lake.buses.client import Bus
from tardis_machine.model.errors import SettingsError

_READERS = {
    "event-hubs": "event_hubs.reader:EventHubsBus",
    "files": "files.reader:FilesBus",
    "kinesis": "kinesis.reader:KinesisBus",
    "nats": "nats.reader:NatsBus",
    "redis": "redis.reader:RedisBus",
}
"""Where the reader of a bus is, imported when it is used; Kafka has Spark's own."""


def chosen_bus(publishing: PublishingSettings) -> BusSettings:
    """Return the one bus that is configured, which is the one to read."""
    names = (KafkaSettings.bus, *_READERS)
    found = [bus for bus in publishing.active if bus.bus in names]
    if len(found) != 1:
        given = ", ".join(bus.bus for bus in found) or "none"
        raise SettingsError(
            f"Set exactly one bus to read ({', '.join(sorted(names))}), for example with "
            f"--files-dir or --kafka-brokers and --kafka-topic. Given: {given}."
        )
    return found[0]


def bus_of(settings: BusSettings, pages: str | None = None) -> Bus:
    """Return the reader of a bus; Kafka uses the connector of Spark.

    Args:
        settings: How to reach the bus.
        pages: Folder for what the driver must fetch to plan a batch; None: tasks fetch it again.
    """
    module, _, name = _READERS[settings.bus].partition(":")
    reader: Callable[..., Bus] = getattr(
        importlib.import_module(f"tardis_machine.lake.buses.{module}"), name
    )
    # Only Kinesis does not tell its newest positions.
    return reader(settings, pages) if settings.bus == KinesisSettings.bus else reader(settings)
