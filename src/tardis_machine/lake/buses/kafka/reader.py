"""Read Kafka by Spark's own connector: the options that the settings of publishing mean to it."""

from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.names import StreamNames
from tardis_machine.lake.buses.rows import COLUMNS

CLIENT = "kafka."
"""What the names of options for the Java client begin with."""

# Magic byte and schema id, then the list of message indexes, which is one zero for the first one.
_REGISTRY_MAGIC = b"\x00"
_REGISTRY_BYTES = 6
_LOGIN_MODULES = {
    "plain": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "scram-sha-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "scram-sha-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "oauthbearer": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "aws-msk-iam": "software.amazon.msk.auth.iam.IAMLoginModule",
}
_LOGIN_HANDLERS = {
    "oauthbearer": (
        "sasl.login.callback.handler.class",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    ),
    "aws-msk-iam": (
        "sasl.client.callback.handler.class",
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    ),
}


def read_kafka(spark: SparkSession, settings: KafkaSettings, policy: ReadPolicy) -> DataFrame:
    """Return all events in the topics now."""
    options = reader_options(settings, policy)
    return spark.read.format("kafka").options(**options).load().transform(bus_rows)


def stream_kafka(spark: SparkSession, settings: KafkaSettings, policy: ReadPolicy) -> DataFrame:
    """Return the events of the topics as a stream, from the oldest on."""
    options = reader_options(settings, policy)
    return spark.readStream.format("kafka").options(**options).load().transform(bus_rows)


def bus_rows(records: DataFrame) -> DataFrame:
    """Return records as the rows that every reader delivers, without the frame of a registry."""
    is_framed = F.substring("value", 1, 1) == F.lit(_REGISTRY_MAGIC)
    plain = F.expr(f"substring(value, {_REGISTRY_BYTES + 1})")
    return records.select(
        F.lit(KafkaSettings.bus).alias("bus"),
        F.col("topic").alias("stream"),
        F.col("partition").cast("string"),
        F.col("offset").cast("string").alias("position"),
        F.col("timestamp").alias("bus_ts"),
        F.when(is_framed, plain).otherwise(F.col("value")).alias("envelope"),
    ).select(*(column.name for column in COLUMNS))


def reader_options(settings: KafkaSettings, policy: ReadPolicy) -> dict[str, str]:
    """Return the options of Spark's connector."""
    options = {
        "startingOffsets": "earliest",
        "failOnDataLoss": str(policy.fails_on_loss).lower(),
        **_topics(settings),
    }
    if policy.max_rows is not None:
        options["maxOffsetsPerTrigger"] = str(policy.max_rows)
    client = {"bootstrap.servers": settings.broker_list, **dict(_security(settings))}
    return options | {f"{CLIENT}{name}": value for name, value in client.items()}


def _topics(settings: KafkaSettings) -> dict[str, str]:
    names = StreamNames.of(settings.destinations)
    if not names.globs:
        return {"subscribe": ",".join(names.literals)}
    # The dot is the only character of topic names with a meaning in a pattern.
    texts = (*names.literals, *names.globs)
    return {"subscribePattern": "|".join(t.replace(".", "\\.").replace("*", ".*") for t in texts)}


def _security(settings: KafkaSettings) -> Iterator[tuple[str, str]]:
    yield "security.protocol", settings.protocol.upper()
    yield from _tls(settings)
    if settings.sasl_mechanism is not None:
        yield "sasl.mechanism", settings.sasl_mechanism.upper().replace("AWS-MSK", "AWS_MSK")
        yield "sasl.jaas.config", _jaas(settings)
        if settings.sasl_mechanism in _LOGIN_HANDLERS:
            yield _LOGIN_HANDLERS[settings.sasl_mechanism]
        if settings.oauth_token_url is not None:
            yield "sasl.oauthbearer.token.endpoint.url", settings.oauth_token_url


def _tls(settings: KafkaSettings) -> Iterator[tuple[str, str]]:
    if settings.ssl_ca is not None:
        yield "ssl.truststore.type", "PEM"
        yield "ssl.truststore.certificates", settings.ssl_ca.read_text(encoding="utf-8")
    if settings.ssl_cert is not None and settings.ssl_key is not None:
        yield "ssl.keystore.type", "PEM"
        yield "ssl.keystore.certificate.chain", settings.ssl_cert.read_text(encoding="utf-8")
        yield "ssl.keystore.key", settings.ssl_key.read_text(encoding="utf-8")
    if settings.ssl_key_password is not None:
        yield "ssl.key.password", settings.ssl_key_password.reveal()
    if not settings.ssl_verify:
        yield "ssl.endpoint.identification.algorithm", ""


def _jaas(settings: KafkaSettings) -> str:
    """Return the JAAS configuration."""
    secret = settings.sasl_password or settings.oauth_client_secret
    fields = {
        "username": settings.sasl_username,
        "password": settings.sasl_password and settings.sasl_password.reveal(),
        "clientId": settings.oauth_client_id,
        "clientSecret": settings.oauth_client_secret and secret and secret.reveal(),
        "scope": settings.oauth_scope,
    }
    given = " ".join(f"{name}={_quoted(value)}" for name, value in fields.items() if value)
    module = _LOGIN_MODULES[str(settings.sasl_mechanism)]
    return f"{module} required {given};"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
