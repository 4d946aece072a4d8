"""Readers of buses: each turns the settings that publishing has into a stream of records."""

import importlib
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.kafka import stream_kafka
from tardis_machine.lake.buses.source import stream_bus
from tardis_machine.model.errors import SettingsError
from tardis_machine.sinks.kafka_settings import KafkaSettings
from tardis_machine.sinks.registry import PublishingSettings
from tardis_machine.sinks.settings import BusSettings

_READERS = {
    "event-hubs": "event_hubs:EventHubsBus",
    "files": "files:FilesBus",
    "kinesis": "kinesis:KinesisBus",
    "nats": "nats:NatsBus",
    "redis": "redis:RedisBus",
}
"""Where the reader of a bus is, imported when it is used; Kafka has Spark's own."""


def chosen_bus(publishing: PublishingSettings) -> BusSettings:
    """Return the one bus that is configured, which is the one to read."""
    names = (KafkaSettings.bus, *_READERS)
    found = [bus for bus in publishing.active if bus.bus in names]
    if len(found) != 1:
        given = ", ".join(bus.bus for bus in found) or "none"
        raise SettingsError(
            f"Name exactly one bus to read ({', '.join(sorted(names))}), for example with "
            f"--files-dir or --kafka-brokers and --kafka-topic. Given: {given}."
        )
    return found[0]


def stream_records(spark: SparkSession, bus: BusSettings, policy: ReadPolicy) -> DataFrame:
    """Return the records of a bus as a stream, from the oldest on."""
    if isinstance(bus, KafkaSettings):
        return stream_kafka(spark, bus, policy)
    module, _, name = _READERS[bus.bus].partition(":")
    reader: Callable[[BusSettings], Any] = getattr(
        importlib.import_module(f"tardis_machine.lake.buses.{module}"), name
    )
    return stream_bus(spark, reader(bus), policy)
