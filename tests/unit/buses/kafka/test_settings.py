"""Options of the Kafka bus: what is derived, what is refused, what is never shown."""

from pathlib import Path
from typing import Any

import pytest

from tardis_machine.app.settings.loading import load_settings
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import Secret

ON: dict[str, Any] = {"brokers": ("broker:9092",), "topic": "bronze"}


def problems(**options: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        KafkaSettings(**{**ON, **options})
    return caught.value.problems


def test_nothing_given_is_off_and_valid() -> None:
    assert not KafkaSettings().is_on


def test_brokers_alone_lack_a_topic() -> None:
    assert problems(topic=None) == ("kafka-topic is required when kafka-brokers is set.",)


def test_template_stands_for_the_topic() -> None:
    assert KafkaSettings(brokers=("b:1",), topic_template="bronze.{{exchange}}").is_on


def test_schemes_of_brokers_are_dropped() -> None:
    settings = KafkaSettings(**{**ON, "brokers": ("PLAINTEXT://a:1", "b:2", "SASL_SSL://[::1]:3")})
    assert settings.broker_list == "a:1,b:2,[::1]:3"


@pytest.mark.parametrize("broker", ["nowhere", "a:b", "a:1/path", ":9092"])
def test_broker_without_host_and_port_is_refused(broker: str) -> None:
    assert problems(brokers=(broker,)) == (f'kafka-brokers: "{broker}" must be host:port.',)


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "ä", "x" * 250])
def test_name_that_is_no_topic_is_refused(topic: str) -> None:
    (problem,) = problems(topic=topic)
    assert problem.startswith("kafka-topic:")


@pytest.mark.parametrize(
    ("acks", "idempotent", "number", "expected"),
    [
        ("all", None, -1, True),
        ("-1", None, -1, True),
        ("all", False, -1, False),
        ("leader", None, 1, False),
        ("1", None, 1, False),
        ("none", None, 0, False),
        ("0", None, 0, False),
    ],
)
def test_idempotence_follows_acks(
    acks: str, idempotent: bool | None, number: int, expected: bool
) -> None:
    settings = KafkaSettings(**ON, acks=acks, idempotent=idempotent)  # type: ignore[arg-type]
    assert (settings.acks_number, settings.is_idempotent) == (number, expected)


def test_more_requests_than_brokers_can_order_are_refused() -> None:
    expected = "kafka-max-in-flight must be at most 5 when idempotent."
    assert problems(max_in_flight=6) == (expected,)
    assert KafkaSettings(**ON, acks="leader", max_in_flight=6).requests_in_flight == 6


def test_idempotence_without_all_acks_is_refused() -> None:
    assert problems(acks="leader", idempotent=True) == (
        "kafka-idempotent requires kafka-acks=all.",
    )


@pytest.mark.parametrize(
    ("options", "protocol"),
    [
        ({}, "plaintext"),
        ({"ssl": True}, "ssl"),
        ({"security_protocol": "ssl"}, "ssl"),
        (
            {"sasl_mechanism": "plain", "sasl_username": "u", "sasl_password": Secret("p")},
            "sasl_plaintext",
        ),
        (
            {
                "sasl_mechanism": "plain",
                "sasl_username": "u",
                "sasl_password": Secret("p"),
                "ssl": True,
            },
            "sasl_ssl",
        ),
        ({"sasl_mechanism": "aws-msk-iam"}, "sasl_ssl"),
    ],
)
def test_protocol_follows_the_other_options(options: dict[str, Any], protocol: str) -> None:
    assert KafkaSettings(**ON, **options).protocol == protocol


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"sasl_mechanism": "scram-sha-256", "sasl_username": "u"},
            "kafka-sasl-username and kafka-sasl-password are required with kafka-sasl-mechanism.",
        ),
        ({"security_protocol": "sasl_ssl"}, "kafka-security-protocol=sasl_ssl requires"),
        ({"security_protocol": "plaintext", "ssl": True}, "kafka-ssl contradicts"),
        ({"ssl_ca": Path("missing.pem")}, "kafka-ssl-ca: missing.pem is not a file."),
        ({"ssl_cert": Path(__file__)}, "kafka-ssl-cert and kafka-ssl-key must be given together."),
        ({"schema_registry_url": "ftp://x"}, "kafka-schema-registry-url must be"),
        ({"schema_registry_url": "http://user:pw@host"}, "kafka-schema-registry-auth-username"),
        (
            {"schema_registry_url": "http://x", "schema_registry_auth_username": "u"},
            "must be given together.",
        ),
        ({"config": {"acks": "1"}}, "kafka-config cannot set acks: use kafka-acks."),
        ({"config": {"sasl.password": "x"}}, "use kafka-sasl-password."),
        ({"config": {"delivery.report.only.error": "true"}}, "depends on it."),
        ({"key_template": "{{foo}}"}, 'Unknown kafka-key-template placeholder "{{foo}}".'),
        ({"topic_routing": {"foo": "t"}}, "Unknown payload case(s) for kafka-topic-routing: foo."),
        ({"static_headers": {"eventId": "x"}}, 'cannot override reserved header "eventId".'),
    ],
)
def test_contradictions_are_named(options: dict[str, Any], expected: str) -> None:
    (problem,) = problems(**options)
    assert expected in problem


def test_oauth_needs_all_of_its_options() -> None:
    found = problems(sasl_mechanism="oauthbearer", oauth_client_id="id")
    assert [text.partition(" ")[0] for text in found] == [
        "kafka-oauth-token-url",
        "kafka-oauth-client-secret",
    ]


def test_all_problems_come_together() -> None:
    found = problems(brokers=("x",), topic=None, acks="1", idempotent=True, config={"acks": "1"})
    assert len(found) == 4


def test_secrets_are_shown_nowhere() -> None:
    settings = KafkaSettings(
        **ON,
        sasl_mechanism="plain",
        sasl_username="u",
        sasl_password=Secret("word-one"),
        config={"ssl.keystore.password": "word-two"},
    )
    assert "word-" not in repr(settings)
    assert settings.secrets == ("word-one", "word-two")


def test_flags_and_variables_reach_the_settings() -> None:
    words = ["--kafka-brokers", "a:1,b:2", "--kafka-topic", "t", "--kafka-ssl-verify", "false"]
    environ = {"TM_KAFKA_CONFIG": "socket.nagle.disable:true", "TM_KAFKA_MAX_BATCH_BYTES": "2 MB"}
    kafka = load_settings(PublishingSettings, words, environ).settings.kafka
    assert kafka.broker_list == "a:1,b:2"
    assert not kafka.ssl_verify
    assert kafka.config == {"socket.nagle.disable": "true"}
    assert kafka.max_batch_bytes == 2_000_000


def test_wrong_values_are_refused_with_what_is_valid() -> None:
    words = ["--kafka-brokers", "a:1", "--kafka-acks", "two", "--kafka-compression-level", "13"]
    with pytest.raises(SettingsError) as caught:
        load_settings(PublishingSettings, words)
    text = str(caught.value)
    assert "kafka-acks must be one of all, -1, leader, 1, none, 0." in text
    assert "kafka-compression-level must be an integer between -1 and 12." in text
