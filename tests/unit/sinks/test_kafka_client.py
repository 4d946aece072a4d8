"""What librdkafka is told, and what becomes of what it says."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from structlog.testing import capture_logs

from tardis_machine.model.settings import Secret
from tardis_machine.sinks.kafka.client import Listener, client_properties, producer_properties
from tardis_machine.sinks.kafka.settings import KafkaSettings


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


def test_token_service_is_asked_by_librdkafka_itself() -> None:
    made = client_properties(
        KafkaSettings(
            brokers=("h:1",),
            topic="t",
            sasl_mechanism="oauthbearer",
            oauth_token_url="https://id/token",
            oauth_client_id="c",
            oauth_client_secret=Secret("s"),
        )
    )
    assert made["sasl.mechanism"] == "OAUTHBEARER"
    assert made["sasl.oauthbearer.method"] == "oidc"
    assert made["sasl.oauthbearer.client.secret"] == "s"


def test_repeated_lines_are_counted_and_said_once_per_interval() -> None:
    now = 0.0
    listener = Listener([], interval_seconds=10, monotonic=lambda: now)
    with capture_logs() as lines:
        for _ in range(500):
            listener.log(logging.ERROR, "%s [%s] %s", "FAIL", "producer-1", "refused")
        listener.log(logging.INFO, "%s [%s] %s", "OTHER", "producer-1", "x")
        now = 11.0
        listener.log(logging.ERROR, "%s [%s] %s", "FAIL", "producer-1", "refused")
    said = [(line["kind"], line["log_level"], line["left_out"]) for line in lines]
    assert said == [("FAIL", "error", 0), ("OTHER", "debug", 0), ("FAIL", "error", 499)]


def test_secrets_are_cut_out_of_what_librdkafka_says() -> None:
    listener = Listener(["s3cret", ""], interval_seconds=10)
    with capture_logs() as lines:
        listener.error(KafkaError(KafkaError._TRANSPORT, "login s3cret failed"))
    assert lines[0]["text"] == "login *** failed"
    assert "s3cret" not in listener.last_error


def test_refused_login_and_lost_cluster_are_remembered_until_forgotten() -> None:
    listener = Listener([], interval_seconds=10)
    with capture_logs():
        listener.error(KafkaError(KafkaError._AUTHENTICATION))
        listener.error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert listener.is_refused
    assert listener.is_cut_off
    listener.forget()
    assert not listener.is_refused
    assert not listener.is_cut_off
    assert listener.refusals_total == 1


def test_statistics_are_logged_in_a_few_figures() -> None:
    listener = Listener([], interval_seconds=10)
    brokers = {"a": {"rtt": {"avg": 900}}, "b": {"rtt": {"avg": 1200}}}
    figures = {"msg_cnt": 3, "msg_size": 400, "txmsgs": 5, "txmsg_bytes": 600, "brokers": brokers}
    with capture_logs() as lines:
        listener.statistics(json.dumps(figures))
    assert lines[0]["queued"] == 3
    assert lines[0]["round_trip_us"] == 1200
