"""Which bus carries the events of another: Event Hubs has a Kafka endpoint."""

from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.buses.kafka.settings import (
    IDEMPOTENT_IN_FLIGHT,
    KafkaSettings,
    Partitioner,
    SecurityProtocol,
)
from tardis_machine.buses.settings import BusSettings

USER = "$ConnectionString"
"""The service takes this name, with the connection string as its password."""
MAX_REQUEST_BYTES = 1_000_000
"""The service closes the connection at a request of more than 1,046,528 bytes."""
CLIENT_PROPERTIES = {
    # The service closes idle connections after four minutes, without a word.
    "connections.max.idle.ms": "180000",
    "metadata.max.age.ms": "180000",
}


def carrier(bus: BusSettings) -> BusSettings:
    """Return the settings of the sink to use for a bus; Event Hubs may use that of Kafka."""
    if isinstance(bus, EventHubsSettings) and bus.is_kafka:
        return as_kafka(bus)
    return bus


def carrier_class(bus: BusSettings) -> type[BusSettings]:
    """Return the settings class of that sink; the settings themselves need not be sound."""
    is_carried = isinstance(bus, EventHubsSettings) and bus.is_kafka
    return KafkaSettings if is_carried else type(bus)


def as_kafka(settings: EventHubsSettings) -> KafkaSettings:
    """Return Kafka settings that publish the same events to the same hubs."""
    partitioner: Partitioner = "murmur2_random"
    if settings.partitioning == "round-robin":
        partitioner = "random"
    protocol: SecurityProtocol = "sasl_plaintext" if settings.is_emulator else "sasl_ssl"
    return KafkaSettings(
        brokers=(settings.kafka_address,),
        topic=settings.base_hub,
        topic_routing=settings.event_hub_routing,
        key_template=settings.partition_key_template,
        partitioner=partitioner,
        security_protocol=protocol,
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
        max_batch_size=settings.batch_events,
        max_batch_bytes=_at_most(MAX_REQUEST_BYTES, settings.max_batch_bytes),
        max_batch_delay_ms=settings.max_batch_delay_ms,
        max_record_bytes=_at_most(MAX_REQUEST_BYTES, settings.max_record_bytes),
        max_in_flight=_at_most(IDEMPOTENT_IN_FLIGHT, settings.max_in_flight),
        request_timeout_ms=settings.request_timeout_ms,
        connect_timeout_ms=settings.connect_timeout_ms,
        config=CLIENT_PROPERTIES,
        delivery=settings.delivery,
    )


def _at_most(limit: int, wanted: int | None) -> int:
    return min(wanted or limit, limit)
