"""What the producer of librdkafka is told."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.model.settings import Secret
from tardis_machine.sinks.kafka.producer import producer_properties


def properties(**options: Any) -> dict[str, Any]:
    return producer_properties(KafkaSettings(brokers=("h:1",), topic="t", **options))


def test_records_are_never_given_up_and_never_reordered() -> None:
    made = properties()
    assert made["enable.idempotence"] is True
    assert made["acks"] == -1
    assert made["delivery.timeout.ms"] == 0
    assert made["max.in.flight.requests.per.connection"] == 5
    assert properties(acks="leader")["max.in.flight.requests.per.connection"] == 1
    assert properties(max_in_flight=3)["max.in.flight.requests.per.connection"] == 3


def test_limits_and_codec_are_those_of_the_settings() -> None:
    made = properties(max_batch_size=7, max_batch_bytes=70_000, max_record_bytes=2000)
    assert made["batch.num.messages"] == 7
    assert made["batch.size"] == 70_000
    assert made["message.max.bytes"] == 2000
    assert made["compression.type"] == "lz4"
    assert made["partitioner"] == "murmur2_random"
    assert "compression.level" not in made
    assert properties(compression_level=3)["compression.level"] == 3


def test_operator_adds_properties_of_his_own() -> None:
    assert properties(config={"socket.nagle.disable": "true"})["socket.nagle.disable"] == "true"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ssl": True, "ssl_verify": False},
        {"ssl_ca": Path(__file__)},
        {"acks": "none", "compression": "zstd", "compression_level": 5},
        {"sasl_mechanism": "plain", "sasl_username": "u", "sasl_password": Secret("p")},
        {"sasl_mechanism": "scram-sha-512", "sasl_username": "u", "sasl_password": Secret("p")},
        {
            "sasl_mechanism": "oauthbearer",
            "oauth_token_url": "https://id/token",
            "oauth_client_id": "c",
            "oauth_client_secret": Secret("s"),
            "oauth_scope": "kafka",
            "ssl": True,
        },
    ],
)
def test_librdkafka_knows_every_property(options: dict[str, Any], closed_port: int) -> None:
    made = properties(**options)
    made.pop("ssl.ca.location", None)
    # Creating a producer checks names and values; it connects later, and this one never does.
    Producer({**made, "bootstrap.servers": f"127.0.0.1:{closed_port}", "log_level": 0})
