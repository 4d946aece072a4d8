"""Settings of publishing to Azure Event Hubs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from tardis_machine.bronze.keys import DEFAULT_KEY, EVENT_HUBS_KEY
from tardis_machine.buses.destinations import Destinations
from tardis_machine.buses.settings import DeliveryOverrides, HeaderBusSettings
from tardis_machine.buses.tls import file_problems
from tardis_machine.model.settings import Secret, computed_option, group, option

_HUB = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,254}[A-Za-z0-9])?", re.ASCII)
KAFKA_PORT = 9093
KAFKA_EMULATOR_PORT = 9092
MIN_KAFKA_RECORD_BYTES = 1000
AMQP_BATCH_EVENTS, KAFKA_BATCH_EVENTS = 1000, 10_000
"""By Kafka the bytes are the limit; a call per thousand events costs a tenth more CPU."""

_ADDRESS = re.compile(r"[^\s:/@]+:\d{1,5}")
_HOST = re.compile(r"(?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+(?::\d{1,5})?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class EventHubsSettings(HeaderBusSettings):
    """Publish to Azure Event Hubs."""

    bus: ClassVar[str] = "event-hubs"
    title: ClassVar[str] = "Event Hubs"
    extra: ClassVar[str | None] = "event-hubs"
    client: ClassVar[str | None] = "azure.eventhub"
    anchors: ClassVar[tuple[str, ...]] = ("connection_string", "namespace")
    usual: ClassVar[tuple[str, ...]] = (
        "connection_string",
        "namespace",
        "credential",
        "event_hub_name",
        "partitioning",
        "transport",
    )

    connection_string: Secret | None = option(
        None,
        "Connection string of a namespace or event hub. This or namespace enables Event Hubs.",
    )
    namespace: str | None = option(
        None,
        "Namespace, with authentication by Microsoft Entra ID.",
        metavar="name.servicebus.windows.net",
    )
    credential: Literal["default", "managed-identity", "client-secret", "workload", "cli"] = option(
        "default",
        "Entra ID credential; client-secret reads AZURE_TENANT_ID, AZURE_CLIENT_ID and "
        "AZURE_CLIENT_SECRET.",
    )
    event_hub_name: str | None = computed_option(
        lambda: None,
        "Event hub of payload cases that event-hub-routing does not list.",
        shown_default="EntityPath of the connection string",
        aliases=("hub", "name"),
    )
    event_hub_routing: Mapping[str, str] | None = option(
        None,
        "Event hub per payload case.",
        metavar="payloadCase:hub",
        aliases=("routing",),
    )
    partition_key_template: str = option(
        DEFAULT_KEY, "Partition key template; events with the same key are delivered in order."
    )
    partitioning: Literal["key", "client", "round-robin"] = option(
        "key",
        "key: the service hashes the partition key, one batch per key; client: this client hashes "
        "it, one batch per partition; round-robin: no ordering.",
    )
    static_headers: Mapping[str, str] = option(
        {},
        "Properties added to every event.",
        metavar="name:value,…",
        aliases=("static_properties",),
    )
    transport: Literal["amqp", "amqp-websockets", "kafka"] = option(
        "amqp", "Protocol: AMQP (port 5671), AMQP over WebSocket (443) or Kafka (9093)."
    )
    proxy: Secret | None = option(
        None,
        "HTTP proxy; implies transport amqp-websockets.",
        metavar="http://user:pass@host:port",
    )
    custom_endpoint: str | None = option(
        None,
        "Endpoint to connect to instead of the namespace, such as an application gateway; with "
        "transport kafka a bootstrap server as host:port.",
    )
    ca: Path | None = option(
        None, "CA certificates to trust, PEM file (default: those of the system)."
    )
    max_in_flight: int = option(
        4,
        "Maximum batches in flight, one per partition; above 1 only with partitioning client.",
        minimum=1,
        maximum=64,
    )
    max_batch_size: int = computed_option(
        lambda: 0,
        "Maximum events per batch.",
        shown_default=f"{AMQP_BATCH_EVENTS}; {KAFKA_BATCH_EVENTS} with transport kafka",
        minimum=0,
    )
    max_batch_bytes: int = computed_option(
        lambda: 0, "Maximum bytes per batch.", shown_default="maximum of the link", minimum=0
    )
    max_batch_delay_ms: int = option(25, "Maximum time to wait for a batch to fill.", minimum=0)
    max_record_bytes: int | None = computed_option(
        lambda: None, "Maximum size of an envelope.", shown_default="maximum of the link", minimum=1
    )
    request_timeout_ms: int = option(30_000, "Timeout of sending a batch.", minimum=1)
    connect_timeout_ms: int = option(15_000, "Connect timeout.", minimum=1)
    delivery: DeliveryOverrides = group(DeliveryOverrides, "event-hubs")

    @property
    def fields(self) -> dict[str, str]:
        """Return the parts of the connection string, by their names in lower case."""
        text = self.connection_string.reveal() if self.connection_string else ""
        pairs = (part.partition("=") for part in text.split(";") if part.strip())
        return {name.strip().lower(): value.strip() for name, _, value in pairs}

    @property
    def base_hub(self) -> str | None:
        """Return the hub of payload cases that the routing does not list."""
        return self.event_hub_name or self.fields.get("entitypath") or None

    @property
    def host(self) -> str:
        """Return the host of the namespace, with its port if one is given."""
        if self.namespace is not None:
            return self.namespace
        return _address_in(self.fields.get("endpoint", ""))

    @property
    def is_kafka(self) -> bool:
        """Say whether events are sent by the Kafka protocol; they are always read by AMQP."""
        return self.transport == "kafka"

    @property
    def batch_events(self) -> int:
        """Return the maximum events per batch."""
        usual = KAFKA_BATCH_EVENTS if self.is_kafka else AMQP_BATCH_EVENTS
        return self.max_batch_size or usual

    @property
    def is_emulator(self) -> bool:
        """Say whether the connection string is that of an emulator, which has no TLS."""
        return self.fields.get("usedevelopmentemulator", "").lower() == "true"

    @property
    def kafka_address(self) -> str:
        """Return host and port of the Kafka endpoint."""
        if self.custom_endpoint is not None:
            return self.custom_endpoint
        host, _, _ = self.host.partition(":")
        return f"{host}:{KAFKA_EMULATOR_PORT if self.is_emulator else KAFKA_PORT}"

    @property
    def amqp_endpoint(self) -> str | None:
        """Return where AMQP clients connect to instead of the namespace."""
        return None if self.is_kafka else self.custom_endpoint

    @property
    def is_websocket(self) -> bool:
        """Say whether AMQP goes through a WebSocket."""
        return self.transport == "amqp-websockets" or self.proxy is not None

    @property
    def endpoint(self) -> str:
        """Return the namespace."""
        return self.custom_endpoint or self.host

    @property
    def destinations(self) -> Destinations:
        """Return what names the hubs."""
        return Destinations(
            bus=self.bus,
            noun="hub",
            base=self.base_hub,
            base_option="event-hub-name",
            routing_option="event-hub-routing",
            routing=self.event_hub_routing,
            key=self.partition_key_template,
            key_rule=EVENT_HUBS_KEY,
            key_option="partition-key-template",
            pattern=_HUB,
        )

    def problems(self) -> Iterable[str]:
        """Yield what is wrong, option by option; the connection string is never shown."""
        yield from self._login_problems()
        if self.is_on and self.base_hub is None:
            anchor = "namespace" if self.namespace else "connection-string"
            yield f"event-hubs-event-hub-name is required when event-hubs-{anchor} is set."
        yield from self.destinations.problems()
        yield from self._transport_problems()

    def _login_problems(self) -> Iterable[str]:
        if self.connection_string is not None and self.namespace is not None:
            yield "Give event-hubs-connection-string or event-hubs-namespace, not both."
        if self.connection_string is not None and not self._is_complete():
            yield (
                "event-hubs-connection-string must contain Endpoint=sb://…; and "
                "SharedAccessKeyName with SharedAccessKey, or SharedAccessSignature."
            )
        if self.namespace is not None and not _HOST.fullmatch(self.namespace):
            yield "event-hubs-namespace must be a host such as name.servicebus.windows.net."

    def _is_complete(self) -> bool:
        fields = self.fields
        has_key = bool(fields.get("sharedaccesskeyname") and fields.get("sharedaccesskey"))
        is_signed = has_key or bool(fields.get("sharedaccesssignature"))
        return is_signed and fields.get("endpoint", "").startswith("sb://") and bool(self.host)

    def _transport_problems(self) -> Iterable[str]:
        if self.is_kafka:
            yield from self._kafka_problems()
        if "@" in (self.custom_endpoint or ""):
            # Not shown, because it contains a secret.
            yield "event-hubs-custom-endpoint must not contain credentials."
        if self.proxy is not None and not _address_in(self.proxy.reveal()):
            yield "event-hubs-proxy must be an http URL with a host."
        yield from file_problems({"event-hubs-ca": self.ca})

    def _kafka_problems(self) -> Iterable[str]:
        if self.proxy is not None:
            yield "event-hubs-proxy has no effect with event-hubs-transport=kafka; remove it."
        if self.connection_string is None and self.namespace is not None:
            yield "event-hubs-transport=kafka requires event-hubs-connection-string."
        endpoint = self.custom_endpoint
        if endpoint is not None and not _ADDRESS.fullmatch(endpoint):
            yield "event-hubs-custom-endpoint must be host:port with event-hubs-transport=kafka."
        if (self.max_record_bytes or MIN_KAFKA_RECORD_BYTES) < MIN_KAFKA_RECORD_BYTES:
            yield (
                f"event-hubs-max-record-bytes must be at least {MIN_KAFKA_RECORD_BYTES} with "
                "event-hubs-transport=kafka."
            )


def _address_in(url: str) -> str:
    """Return host and port of a URL; nothing when it is none."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        # Its text would show the URL.
        return ""
