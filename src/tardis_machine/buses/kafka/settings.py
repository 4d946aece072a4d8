"""Settings of publishing to Kafka."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from tardis_machine.bronze.keys import DEFAULT_KEY
from tardis_machine.buses.destinations import Destinations
from tardis_machine.buses.kafka.properties import property_problems
from tardis_machine.buses.settings import DeliveryOverrides, HeaderBusSettings
from tardis_machine.buses.tls import file_problems, pair_problems
from tardis_machine.model.settings import Secret, group, option

Acks: TypeAlias = Literal["all", "-1", "leader", "1", "none", "0"]
Compression: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Partitioner: TypeAlias = Literal[
    "murmur2_random", "murmur2", "consistent_random", "fnv1a_random", "random"
]
Timestamp: TypeAlias = Literal["publish", "local", "event"]
SecurityProtocol: TypeAlias = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
SaslMechanism: TypeAlias = Literal[
    "plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "aws-msk-iam"
]

IDEMPOTENT_IN_FLIGHT = 5
"""Maximum requests in flight for which an idempotent producer keeps the order."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_SCHEME = re.compile(r"^[A-Za-z0-9_+.-]+://")
_BROKER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):\d{1,5}")
_HTTP = re.compile(r"https?://[^\s/?#@]+[^\s?#@]*")


@dataclass(frozen=True, kw_only=True)
class KafkaSettings(HeaderBusSettings):
    """Publish to Apache Kafka."""

    bus: ClassVar[str] = "kafka"
    title: ClassVar[str] = "Kafka"
    extra: ClassVar[str | None] = "kafka"
    client: ClassVar[str | None] = "confluent_kafka"
    anchors: ClassVar[tuple[str, ...]] = ("brokers",)
    usual: ClassVar[tuple[str, ...]] = (
        "brokers",
        "topic",
        "ssl",
        "ssl_ca",
        "sasl_mechanism",
        "sasl_username",
        "sasl_password",
        "create_topics",
        "schema_registry_url",
    )

    brokers: tuple[str, ...] = option(
        (), "Bootstrap servers. Setting them enables Kafka.", metavar="host:port,…"
    )
    topic: str | None = option(None, "Topic of payload cases that topic-routing does not list.")
    topic_routing: Mapping[str, str] | None = option(
        None, "Topic per payload case.", metavar="payloadCase:topic"
    )
    topic_template: str | None = option(None, "Topic name template, such as bronze.{{exchange}}.")
    key_template: str = option(
        DEFAULT_KEY, "Record key template; events with the same key are delivered in order."
    )
    client_id: str = option(
        "tardis-machine-publisher",
        "Client id (client.id) in requests to the brokers.",
        pattern=".+",
    )
    acks: Acks = option(
        "all", "Acknowledgements required: all in-sync replicas, the leader only, or none."
    )
    idempotent: bool | None = option(
        None, "Idempotent producer (enable.idempotence; default: on when acks is all)."
    )
    compression: Compression = option("lz4", "Compression codec of record batches.")
    compression_level: int | None = option(
        None, "Compression level (default: that of the codec).", minimum=-1, maximum=12
    )
    partitioner: Partitioner = option(
        "murmur2_random", "Partitioner; murmur2_random is compatible with the Java client."
    )
    timestamp: Timestamp = option(
        "publish",
        "Record timestamp: time of sending (publish), arrival (local) or exchange time (event).",
    )
    security_protocol: SecurityProtocol | None = option(
        None, "Security protocol (default: derived from the SSL and SASL options)."
    )
    ssl: bool = option(default=False, help="Use TLS.")
    ssl_ca: Path | None = option(None, "CA certificates to trust, PEM file.")
    ssl_cert: Path | None = option(None, "Client certificate, PEM file.")
    ssl_key: Path | None = option(None, "Private key of the client certificate, PEM file.")
    ssl_key_password: Secret | None = option(None, "Password of the private key.")
    ssl_verify: bool = option(default=True, help="Verify the certificates of the brokers.")
    sasl_mechanism: SaslMechanism | None = option(
        None, "SASL mechanism (default: no authentication)."
    )
    sasl_username: str | None = option(None, "SASL username, for plain and scram.")
    sasl_password: Secret | None = option(None, "SASL password, for plain and scram.")
    oauth_token_url: str | None = option(None, "Token endpoint for oauthbearer.", metavar="URL")
    oauth_client_id: str | None = option(None, "Client id for oauthbearer.")
    oauth_client_secret: Secret | None = option(None, "Client secret for oauthbearer.")
    oauth_scope: str | None = option(None, "Scope of the token requests for oauthbearer.")
    create_topics: Literal["off", "auto"] = option("off", "auto: create missing topics.")
    topic_partitions: int = option(12, "Partitions of topics created by create-topics.", minimum=1)
    topic_replication: int = option(
        -1,
        "Replication factor of topics created by create-topics; -1: default of the brokers.",
        minimum=-1,
    )
    schema_registry_url: str | None = option(
        None,
        "URL of the schema registry (default: none, records are plain Protobuf).",
        metavar="URL",
    )
    schema_registry_auth_username: str | None = option(None, "Username for the schema registry.")
    schema_registry_auth_password: Secret | None = option(None, "Password for the schema registry.")
    schema_registry_subject: str | None = option(
        None, "Subject of the schema (default: <topic>-value)."
    )
    schema_registry_auto_register: bool = option(
        default=True, help="Register the schema; false: it must be registered already."
    )
    statistics_interval_ms: int = option(
        0,
        "Interval at which statistics of librdkafka are logged; 0: never.",
        minimum=0,
        maximum=86_400_000,
    )
    config: Mapping[str, str] = field(
        default_factory=dict,
        # Its values may be secrets that only librdkafka knows, such as ssl.keystore.password.
        repr=False,
        metadata={
            "help": "Additional librdkafka properties.",
            "metavar": "name:value,…",
            "secret": True,
        },
    )
    max_batch_size: int = option(10_000, "Maximum events per batch.", minimum=1, maximum=1_000_000)
    max_batch_bytes: int = option(
        1_000_000, "Maximum bytes per batch.", minimum=1, maximum=2_147_483_647
    )
    max_batch_delay_ms: int = option(
        1, "Maximum time to wait for a batch to fill.", minimum=0, maximum=900_000
    )
    max_in_flight: int | None = option(
        None,
        "Maximum requests in flight per broker (default: 5, or 1 without idempotence to keep the "
        "order).",
        minimum=1,
        maximum=1_000_000,
    )
    max_record_bytes: int = option(
        1_000_000,
        "Maximum size of a record, key included.",
        minimum=1000,
        maximum=1_000_000_000,
    )
    request_timeout_ms: int = option(
        30_000, "Timeout for the acknowledgement of a record.", minimum=10, maximum=300_000
    )
    connect_timeout_ms: int = option(10_000, "Connect timeout.", minimum=1000, maximum=300_000)
    delivery: DeliveryOverrides = group(DeliveryOverrides, "kafka")

    @property
    def broker_list(self) -> str:
        """Return the brokers as librdkafka takes them, without schemes."""
        return ",".join(_SCHEME.sub("", broker) for broker in self.brokers)

    @property
    def acks_number(self) -> int:
        """Return the required acknowledgements: -1, 1 or 0."""
        return {"all": -1, "-1": -1, "leader": 1, "1": 1, "none": 0, "0": 0}[self.acks]

    @property
    def is_idempotent(self) -> bool:
        """Say whether the producer is idempotent."""
        return self.acks_number == -1 if self.idempotent is None else self.idempotent

    @property
    def requests_in_flight(self) -> int:
        """Return the maximum number of requests in flight per broker."""
        return self.max_in_flight or (IDEMPOTENT_IN_FLIGHT if self.is_idempotent else 1)

    @property
    def protocol(self) -> SecurityProtocol:
        """Return the security protocol, given or derived."""
        if self.security_protocol is not None:
            return self.security_protocol
        is_encrypted = self.ssl or self.ssl_ca or self.sasl_mechanism == "aws-msk-iam"
        if self.sasl_mechanism is not None:
            return "sasl_ssl" if is_encrypted else "sasl_plaintext"
        return "ssl" if is_encrypted or self.ssl_cert else "plaintext"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return every text that must not be shown."""
        hidden = (
            self.ssl_key_password,
            self.sasl_password,
            self.oauth_client_secret,
            self.schema_registry_auth_password,
        )
        passwords = (value for name, value in self.config.items() if "password" in name)
        return (*(secret.reveal() for secret in hidden if secret), *passwords)

    @property
    def endpoint(self) -> str:
        """Return the brokers."""
        return ",".join(sorted(self.brokers))

    @property
    def destinations(self) -> Destinations:
        """Return what names the topics."""
        return Destinations(
            bus=self.bus,
            noun="topic",
            base=self.topic,
            routing=self.topic_routing,
            template=self.topic_template,
            key=self.key_template,
            pattern=_TOPIC,
        )

    def problems(self) -> Iterable[str]:
        """Yield what is wrong, option by option."""
        yield from self._destination_problems()
        yield from self._producer_problems()
        yield from self._ssl_problems()
        yield from self._sasl_problems()
        yield from self._registry_problems()
        yield from property_problems(self.config)

    def _destination_problems(self) -> Iterable[str]:
        for broker in self.brokers:
            if "@" in broker:
                # Not shown, because it contains a secret.
                yield (
                    "kafka-brokers must not contain credentials: use kafka-sasl-username and "
                    "kafka-sasl-password."
                )
            elif not _BROKER.fullmatch(_SCHEME.sub("", broker)):
                yield f'kafka-brokers: "{broker}" must be host:port.'
        if self.is_on and self.topic is None and self.topic_template is None:
            yield "kafka-topic is required when kafka-brokers is set."
        yield from self.destinations.problems()

    def _producer_problems(self) -> Iterable[str]:
        if self.idempotent and self.acks_number != -1:
            yield "kafka-idempotent requires kafka-acks=all."
        if self.is_idempotent and (self.max_in_flight or 1) > IDEMPOTENT_IN_FLIGHT:
            yield f"kafka-max-in-flight must be at most {IDEMPOTENT_IN_FLIGHT} when idempotent."

    def _ssl_problems(self) -> Iterable[str]:
        files = {"ca": self.ssl_ca, "cert": self.ssl_cert, "key": self.ssl_key}
        yield from file_problems({f"kafka-ssl-{name}": path for name, path in files.items()})
        yield from pair_problems("kafka-ssl", self.ssl_cert, self.ssl_key)
        if self.ssl and self.security_protocol in ("plaintext", "sasl_plaintext"):
            yield f"kafka-ssl contradicts kafka-security-protocol={self.security_protocol}."

    def _sasl_problems(self) -> Iterable[str]:
        mechanism, protocol = self.sasl_mechanism, self.security_protocol
        if protocol is not None and protocol.startswith("sasl") != (mechanism is not None):
            verb = "requires" if mechanism is None else "must not be combined with"
            yield f"kafka-security-protocol={protocol} {verb} kafka-sasl-mechanism."
        if mechanism in ("plain", "scram-sha-256", "scram-sha-512"):
            if not (self.sasl_username and self.sasl_password):
                yield (
                    "kafka-sasl-username and kafka-sasl-password are required with "
                    "kafka-sasl-mechanism."
                )
        elif mechanism == "oauthbearer":
            yield from self._oauth_problems()

    def _oauth_problems(self) -> Iterable[str]:
        for name in ("token_url", "client_id", "client_secret"):
            if not getattr(self, f"oauth_{name}"):
                option_name = f"kafka-oauth-{name.replace('_', '-')}"
                yield f"{option_name} is required with kafka-sasl-mechanism=oauthbearer."
        if self.oauth_token_url and not _HTTP.fullmatch(self.oauth_token_url):
            yield "kafka-oauth-token-url must be an http or https URL without credentials or query."

    def _registry_problems(self) -> Iterable[str]:
        if self.schema_registry_url is None:
            return
        if not _HTTP.fullmatch(self.schema_registry_url):
            yield (
                "kafka-schema-registry-url must be an http or https URL without credentials; use "
                "kafka-schema-registry-auth-username."
            )
        username, password = self.schema_registry_auth_username, self.schema_registry_auth_password
        if (username is None) != (password is None):
            yield (
                "kafka-schema-registry-auth-username and kafka-schema-registry-auth-password "
                "must be given together."
            )
