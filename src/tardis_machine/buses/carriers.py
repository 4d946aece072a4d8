"""Which bus carries the events of another: Event Hubs has a Kafka endpoint."""

from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.settings import BusSettings

KAFKA_PORT = 9093
USER = "$ConnectionString"
"""The service takes this name, with the connection string as its password."""


def carrier(bus: BusSettings) -> BusSettings:
    """Return the settings of the sink to use for a bus; Event Hubs may use that of Kafka."""
    if isinstance(bus, EventHubsSettings) and bus.transport == "kafka":
        return as_kafka(bus)
    return bus


def as_kafka(settings: EventHubsSettings) -> KafkaSettings:
    """Return Kafka settings that publish the same events to the same hubs."""
    host, _, _ = settings.host.partition(":")
    return KafkaSettings(
        brokers=(f"{host}:{KAFKA_PORT}",),
        topic=settings.base_hub,
        topic_routing=settings.event_hub_routing,
        key_template=settings.partition_key_template,
        security_protocol="sasl_ssl",
        sasl_mechanism="plain",
        sasl_username=USER,
        sasl_password=settings.connection_string,
        ssl_ca=settings.ca,
        # Most tiers of the service take no compressed batches.
        compression="none",
        include_payloads=settings.include_payloads,
        exclude_payloads=settings.exclude_payloads,
        static_headers=settings.static_headers,
        meta_headers_prefix=settings.meta_headers_prefix,
        max_batch_size=settings.max_batch_size,
        max_batch_delay_ms=settings.max_batch_delay_ms,
        request_timeout_ms=settings.request_timeout_ms,
        connect_timeout_ms=settings.connect_timeout_ms,
        delivery=settings.delivery,
    )
