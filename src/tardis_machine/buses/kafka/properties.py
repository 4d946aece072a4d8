"""Which properties of librdkafka an operator may set directly."""

from collections.abc import Iterable

_OWNED = {
    "bootstrap.servers": "kafka-brokers",
    "metadata.broker.list": "kafka-brokers",
    "client.id": "kafka-client-id",
    "acks": "kafka-acks",
    "request.required.acks": "kafka-acks",
    "enable.idempotence": "kafka-idempotent",
    "max.in.flight": "kafka-max-in-flight",
    "max.in.flight.requests.per.connection": "kafka-max-in-flight",
    "compression.type": "kafka-compression",
    "compression.codec": "kafka-compression",
    "compression.level": "kafka-compression-level",
    "partitioner": "kafka-partitioner",
    "security.protocol": "kafka-security-protocol",
    "ssl.ca.location": "kafka-ssl-ca",
    "ssl.certificate.location": "kafka-ssl-cert",
    "ssl.key.location": "kafka-ssl-key",
    "ssl.key.password": "kafka-ssl-key-password",
    "enable.ssl.certificate.verification": "kafka-ssl-verify",
    "sasl.mechanism": "kafka-sasl-mechanism",
    "sasl.mechanisms": "kafka-sasl-mechanism",
    "sasl.username": "kafka-sasl-username",
    "sasl.password": "kafka-sasl-password",
    "sasl.oauthbearer.method": "kafka-sasl-mechanism",
    "sasl.oauthbearer.token.endpoint.url": "kafka-oauth-token-url",
    "sasl.oauthbearer.client.id": "kafka-oauth-client-id",
    "sasl.oauthbearer.client.secret": "kafka-oauth-client-secret",
    "sasl.oauthbearer.scope": "kafka-oauth-scope",
    "batch.num.messages": "kafka-max-batch-size",
    "batch.size": "kafka-max-batch-bytes",
    "linger.ms": "kafka-max-batch-delay-ms",
    "queue.buffering.max.ms": "kafka-max-batch-delay-ms",
    "message.max.bytes": "kafka-max-record-bytes",
    "request.timeout.ms": "kafka-request-timeout-ms",
    "socket.timeout.ms": "kafka-request-timeout-ms",
    "socket.connection.setup.timeout.ms": "kafka-connect-timeout-ms",
    "statistics.interval.ms": "kafka-statistics-interval-ms",
    "delivery.timeout.ms": "event-bus-retry-max-age-ms",
    "message.timeout.ms": "event-bus-retry-max-age-ms",
    "message.send.max.retries": "event-bus-retry-max-attempts",
    "retries": "event-bus-retry-max-attempts",
    "queue.buffering.max.messages": "event-bus-spool-max-bytes",
    "queue.buffering.max.kbytes": "event-bus-spool-max-bytes",
}
"""Properties of librdkafka that another option decides."""

_REFUSED = (
    "transactional.id",
    "delivery.report.only.error",
    "dr_cb",
    "dr_msg_cb",
    "error_cb",
    "log_cb",
    "logger",
    "oauth_cb",
    "on_delivery",
    "stats_cb",
    "throttle_cb",
)
"""Properties of librdkafka without which the sink cannot know what was delivered."""


def property_problems(names: Iterable[str]) -> Iterable[str]:
    """Yield why single properties cannot be set by kafka-config."""
    for name in names:
        if owner := _OWNED.get(name):
            yield f"kafka-config cannot set {name}: use {owner}."
        elif name in _REFUSED:
            yield f"kafka-config cannot set {name}: the delivery of events depends on it."
