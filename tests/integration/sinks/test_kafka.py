"""The Kafka sink against a real broker, and against a mock cluster that answers with errors."""

import asyncio
import base64
import importlib
import json
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tardis_machine.bronze.decode import Decoder
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.results import Outcome
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.generated.lakehouse.bronze.v1.normalized_event_pb2 import NormalizedEvent
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.model.records import Trade
from tardis_machine.model.settings import Secret
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.dead_letters.files import letter_files, read_letters
from tardis_machine.sinks.kafka.sink import KafkaSink
from tests.contract.sinks import (
    SOON_SECONDS,
    BusUnderTest,
    Received,
    ServerSinkContract,
    ServerUnderTest,
    enlarged,
    make_events,
)
from tests.servers.kafka import Kafka
from tests.servers.kafka_mock import Api, KafkaMock
from tests.servers.obtain import obtain_registry
from tests.servers.plugin import KAFKA_USERS, unique_name
from tests.servers.readers import Received as Record
from tests.servers.readers import read_kafka
from tests.servers.registry import Registry
from tests.servers.tcp_proxy import TcpProxy
from tests.servers.tls import Certificates
from tests.unit.sinks.delivery import deliver, running
from tests.unit.sinks.registry_stand_in import RegistryStandIn

pytestmark = pytest.mark.broker


class KafkaUnderTest(ServerUnderTest):
    """A topic of two partitions behind a proxy."""

    too_large_bytes = 1_000_001

    def __init__(self, kafka: Kafka, proxy: TcpProxy) -> None:
        self._kafka = kafka
        self._topic = kafka.create_topic(unique_name("topic"), partitions=2)
        settings = KafkaSettings(brokers=(str(kafka.proxy_address),), topic=self._topic)
        super().__init__(proxy, settings)

    def received(self) -> list[Received]:
        return [
            Received(
                record.key or "",
                record.headers["eventId"],
                record.headers["deliveryId"],
                record.value,
            )
            for record in read(self._kafka.address, self._topic)
        ]


class TestKafka(ServerSinkContract):
    @pytest.fixture
    def bus(self, kafka: Kafka, kafka_proxy: TcpProxy) -> BusUnderTest:
        return KafkaUnderTest(kafka, kafka_proxy)


def read(address: str, topic: str) -> list[Record]:
    deadline = time.monotonic() + 240
    while True:
        try:
            return asyncio.run(read_kafka(address, topic))
        except KafkaException:
            # A broker that was just paused or moved may not know its partitions yet.
            if time.monotonic() > deadline:
                raise


def stored_ids(address: str, topic: str) -> list[str]:
    return [record.headers["deliveryId"] for record in read(address, topic)]


def ids(events: list[Event]) -> list[str]:
    return [event.delivery_id for event in events]


@pytest.fixture
def open_sink() -> Iterator[Callable[..., KafkaSink]]:
    """Give a function that opens a sink with some settings."""
    sinks: list[KafkaSink] = []

    def make(**options: Any) -> KafkaSink:
        sink = KafkaSink(KafkaSettings(**options), EventBusSettings())
        sinks.append(sink)
        sink.open()
        return sink

    yield make
    for sink in sinks:
        sink.close(1)


def outcomes(sink: KafkaSink, events: list[Event]) -> set[Outcome]:
    return {result.outcome for result in sink.send(events)}


def events_for(topic: str, count: int, **options: Any) -> list[Event]:
    first = options.pop("first", 0)
    settings = KafkaSettings(brokers=("h:1",), topic=topic, **options)
    return make_events(settings.router(), count, first=first)


def send_until_ok(sink: KafkaSink, events: list[Event]) -> list[Outcome]:
    """Send as a sender would: what was delivered is not sent again.

    Return what the attempts before the last one said.
    """
    seen: list[Outcome] = []
    deadline = time.monotonic() + 240
    while True:
        results = sink.send(events)
        said = {result.outcome for result in results}
        if said == {Outcome.OK}:
            return seen
        assert time.monotonic() < deadline, said
        seen += sorted(said)
        sent = zip(events, results, strict=True)
        events = [event for event, result in sent if result.outcome is not Outcome.OK]
        if Outcome.CLIENT_LOST in said:
            sink.open()


# -- outages


def test_cut_connections_lose_double_and_reorder_nothing(
    kafka: Kafka, kafka_proxy: TcpProxy, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    sink = open_sink(brokers=(kafka.proxy_address,), topic=kafka_topic)
    events = events_for(kafka_topic, 400)
    for start in range(0, 400, 100):
        if start in (100, 200):
            kafka_proxy.cut()
        send_until_ok(sink, events[start : start + 100])
    assert stored_ids(kafka.address, kafka_topic) == ids(events)


@pytest.mark.soak
def test_broker_killed_again_and_again_delays_events_until_it_is_back(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    sink = open_sink(brokers=(kafka.address,), topic=kafka_topic, request_timeout_ms=1000)
    events = events_for(kafka_topic, 500)
    send_until_ok(sink, events[:100])
    for start in range(100, 500, 100):
        kafka.kill()
        assert outcomes(sink, events[start : start + 100]) == {Outcome.AMBIGUOUS}
        kafka.start()
        send_until_ok(sink, events[start : start + 100])
    assert stored_ids(kafka.address, kafka_topic) == ids(events)


def test_silent_broker_is_ambiguous_and_its_late_report_counts(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    sink = open_sink(brokers=(kafka.address,), topic=kafka_topic, request_timeout_ms=1500)
    first, second = events_for(kafka_topic, 50), events_for(kafka_topic, 50, first=50)
    send_until_ok(sink, first[:1])
    kafka.pause()
    started = time.monotonic()
    assert outcomes(sink, first[1:]) == {Outcome.AMBIGUOUS}
    assert outcomes(sink, first[1:] + second) == {Outcome.AMBIGUOUS}
    assert time.monotonic() - started < SOON_SECONDS
    kafka.resume()
    sink.idle(1.0)
    send_until_ok(sink, first[1:] + second)
    assert stored_ids(kafka.address, kafka_topic) == ids(first + second)


def test_half_open_connection_is_noticed_within_the_timeout(
    kafka: Kafka, kafka_proxy: TcpProxy, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    sink = open_sink(brokers=(kafka.proxy_address,), topic=kafka_topic, request_timeout_ms=1500)
    events = events_for(kafka_topic, 100)
    send_until_ok(sink, events[:50])
    kafka_proxy.pause()
    started = time.monotonic()
    assert outcomes(sink, events[50:]) == {Outcome.AMBIGUOUS}
    assert time.monotonic() - started < SOON_SECONDS
    kafka_proxy.resume()
    send_until_ok(sink, events[50:])
    assert stored_ids(kafka.address, kafka_topic) == ids(events)


def test_absent_broker_makes_open_fail_soon(closed_port: int) -> None:
    address = f"127.0.0.1:{closed_port}"
    settings = KafkaSettings(brokers=(address,), topic="t", connect_timeout_ms=60_000)
    sink = KafkaSink(settings, EventBusSettings())
    started = time.monotonic()
    with pytest.raises(SinkUnavailableError, match=re.escape(address)):
        sink.open()
    assert time.monotonic() - started < SOON_SECONDS
    assert outcomes(sink, events_for("t", 2)) == {Outcome.CLIENT_LOST}


def test_close_gives_up_in_its_time_while_the_broker_is_silent(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    sink = open_sink(brokers=(kafka.address,), topic=kafka_topic, request_timeout_ms=100)
    kafka.pause()
    outcomes(sink, events_for(kafka_topic, 1000))
    started = time.monotonic()
    sink.close(0.2)
    assert time.monotonic() - started < SOON_SECONDS
    kafka.resume()


# -- the cluster answers with errors


@pytest.fixture
def mock_topic(kafka_mock: KafkaMock) -> str:
    return kafka_mock.create_topic(unique_name("topic"))


def test_leader_changes_are_survived_in_order(
    kafka_mock: KafkaMock, mock_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    sink = open_sink(brokers=tuple(kafka_mock.address.split(",")), topic=mock_topic)
    events = events_for(mock_topic, 600)
    for step, code in enumerate((6, 7, 19, 20)):
        kafka_mock.fail(Api.PRODUCE, code)
        kafka_mock.set_leader(mock_topic, 0, 1 + step % 3)
        send_until_ok(sink, events[step * 150 : (step + 1) * 150])
    assert stored_ids(kafka_mock.address, mock_topic) == ids(events)


def test_fatal_error_loses_the_client_and_a_new_one_goes_on(
    kafka_mock: KafkaMock, mock_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    sink = open_sink(brokers=tuple(kafka_mock.address.split(",")), topic=mock_topic)
    events = events_for(mock_topic, 30)
    send_until_ok(sink, events[:10])
    kafka_mock.fail(Api.PRODUCE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert outcomes(sink, events[10:20]) == {Outcome.CLIENT_LOST}
    assert outcomes(sink, events[20:]) == {Outcome.CLIENT_LOST}
    sink.open()
    send_until_ok(sink, events[10:])
    assert stored_ids(kafka_mock.address, mock_topic) == ids(events)


REFUSALS = [
    (KafkaError.TOPIC_AUTHORIZATION_FAILED, Outcome.BAD_DESTINATION, "not_authorized"),
    (KafkaError.CLUSTER_AUTHORIZATION_FAILED, Outcome.BAD_DESTINATION, "not_authorized"),
    (KafkaError.TOPIC_EXCEPTION, Outcome.BAD_DESTINATION, "invalid_destination"),
    (KafkaError.POLICY_VIOLATION, Outcome.BAD_DESTINATION, "policy_violation"),
    (KafkaError.THROTTLING_QUOTA_EXCEEDED, Outcome.TRANSIENT, "throttled"),
    (KafkaError.INVALID_PRODUCER_EPOCH, Outcome.TRANSIENT, "broker_error"),
    (KafkaError.PRODUCER_FENCED, Outcome.TRANSIENT, "broker_error"),
    (KafkaError.INVALID_RECORD, Outcome.BAD_RECORD, "invalid_record"),
    (KafkaError.MSG_SIZE_TOO_LARGE, Outcome.BAD_RECORD, "too_large"),
]


def test_refused_batches_are_classified_and_can_be_sent_again(
    kafka_mock: KafkaMock, mock_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    sink = open_sink(brokers=tuple(kafka_mock.address.split(",")), topic=mock_topic)
    events = events_for(mock_topic, 1 + 2 * len(REFUSALS))
    send_until_ok(sink, events[:1])
    for number, (code, outcome, reason) in enumerate(REFUSALS):
        batch = events[1 + 2 * number : 3 + 2 * number]
        kafka_mock.fail(Api.PRODUCE, code)
        results = sink.send(batch)
        assert [(result.outcome, result.reason) for result in results] == [(outcome, reason)] * 2
        assert all(result.is_shared == (outcome is Outcome.BAD_RECORD) for result in results)
        assert all(result.retry_after_seconds >= 1 for result in results if reason == "throttled")
        send_until_ok(sink, batch)
    assert stored_ids(kafka_mock.address, mock_topic) == ids(events)


def test_record_refused_alone_is_the_culprit(
    kafka_mock: KafkaMock, mock_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    sink = open_sink(brokers=tuple(kafka_mock.address.split(",")), topic=mock_topic)
    kafka_mock.fail(Api.PRODUCE, KafkaError.INVALID_RECORD)
    (result,) = sink.send(events_for(mock_topic, 1))
    assert result.outcome is Outcome.BAD_RECORD
    assert not result.is_shared


def test_slow_brokers_time_out_without_doubles(
    kafka_mock: KafkaMock, mock_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    brokers = tuple(kafka_mock.address.split(","))
    sink = open_sink(brokers=brokers, topic=mock_topic, request_timeout_ms=1000)
    events = events_for(mock_topic, 100)
    send_until_ok(sink, events[:10])
    kafka_mock.set_round_trip(300)
    send_until_ok(sink, events[10:])
    kafka_mock.set_round_trip(0)
    assert stored_ids(kafka_mock.address, mock_topic) == ids(events)


def test_full_queue_of_the_client_is_waited_for(
    kafka_mock: KafkaMock, mock_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    brokers = tuple(kafka_mock.address.split(","))
    # librdkafka takes ten batches of this size before its queue is full.
    sink = open_sink(brokers=brokers, topic=mock_topic, max_batch_size=5)
    events = events_for(mock_topic, 300)
    assert outcomes(sink, events) == {Outcome.OK}
    assert stored_ids(kafka_mock.address, mock_topic) == ids(events)


def test_events_beyond_a_full_queue_are_not_sent_while_brokers_are_silent(
    kafka_mock: KafkaMock, mock_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    brokers = tuple(kafka_mock.address.split(","))
    sink = open_sink(brokers=brokers, topic=mock_topic, max_batch_size=5, request_timeout_ms=1500)
    events = events_for(mock_topic, 80)
    send_until_ok(sink, events[:1])
    for broker in kafka_mock.brokers:
        kafka_mock.set_down(broker)
    results = [result.outcome for result in sink.send(events[1:])]
    assert results == [Outcome.AMBIGUOUS] * 50 + [Outcome.TRANSIENT] * 29
    for broker in kafka_mock.brokers:
        kafka_mock.set_up(broker)
    send_until_ok(sink, events[1:])
    assert stored_ids(kafka_mock.address, mock_topic) == ids(events)


# -- destinations


def test_missing_topic_parks_its_events_only_and_is_found_when_it_appears(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    missing = unique_name("topic")
    sink = open_sink(brokers=(kafka.address,), topic=kafka_topic)
    there, absent = events_for(kafka_topic, 10), events_for(missing, 10, first=10)
    results = sink.send([*there, *absent])
    assert [result.outcome for result in results[:10]] == [Outcome.OK] * 10
    assert {(r.outcome, r.reason) for r in results[10:]} == {
        (Outcome.BAD_DESTINATION, "no_destination")
    }
    kafka.create_topic(missing)
    send_until_ok(sink, absent)
    assert stored_ids(kafka.address, missing) == ids(absent)
    assert stored_ids(kafka.address, kafka_topic) == ids(there)


def test_hundreds_of_missing_topics_cost_hardly_more_time_than_one(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    prefix = unique_name("topic")
    sink = open_sink(brokers=(kafka.address,), topic=kafka_topic)
    there = events_for(kafka_topic, 1)
    absent = [each for n in range(400) for each in events_for(f"{prefix}.{n}", 1, first=n + 1)]
    started = time.monotonic()
    for _ in range(2):
        results = sink.send([*there, *absent])
        assert results[0].outcome is Outcome.OK
        assert {result.reason for result in results[1:]} == {"no_destination"}
    # Each of them had half a second to appear, one after the other.
    assert time.monotonic() - started < 120


def test_missing_topics_are_created_together(
    kafka: Kafka, open_sink: Callable[..., KafkaSink]
) -> None:
    topics = [unique_name("topic") for _ in range(12)]
    sink = open_sink(
        brokers=(kafka.address,), topic=topics[0], create_topics="auto", topic_partitions=1
    )
    events = [each for n, topic in enumerate(topics) for each in events_for(topic, 1, first=n)]
    send_until_ok(sink, events)
    stored = [stored_ids(kafka.address, topic) for topic in topics]
    assert [name for each in stored for name in each] == ids(events)


def test_deleted_topic_is_noticed_and_found_again(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    sink = open_sink(brokers=(kafka.address,), topic=kafka_topic, request_timeout_ms=3000)
    events = events_for(kafka_topic, 4)
    send_until_ok(sink, events[:2])
    kafka.delete_topic(kafka_topic)
    # The broker may forget the sequence numbers first, which is fatal to an idempotent producer.
    expected = {Outcome.BAD_DESTINATION, Outcome.AMBIGUOUS, Outcome.CLIENT_LOST}
    assert outcomes(sink, events[2:]) <= expected
    kafka.create_topic(kafka_topic)
    send_until_ok(sink, events[2:])
    assert set(stored_ids(kafka.address, kafka_topic)) == set(ids(events[2:]))


def test_missing_topic_is_created_on_request(
    kafka: Kafka, open_sink: Callable[..., KafkaSink]
) -> None:
    topic = unique_name("topic")
    sink = open_sink(
        brokers=(kafka.address,), topic=topic, create_topics="auto", topic_partitions=3
    )
    events = events_for(topic, 10)
    send_until_ok(sink, events)
    assert sorted(stored_ids(kafka.address, topic)) == sorted(ids(events))
    metadata = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0}).list_topics(topic)
    assert len(metadata.topics[topic].partitions) == 3


def test_batch_larger_than_the_topic_allows_is_blamed_on_all_its_records(
    kafka: Kafka, open_sink: Callable[..., KafkaSink]
) -> None:
    topic = kafka.create_topic(unique_name("topic"), config={"max.message.bytes": "2000"})
    sink = open_sink(brokers=(kafka.address,), topic=topic, compression="none")
    events = events_for(topic, 4)
    events[2] = enlarged(events[2], 3000)
    results = sink.send(events)
    assert {(r.outcome, r.is_shared) for r in results} == {(Outcome.BAD_RECORD, True)}
    assert outcomes(sink, events[:2]) == {Outcome.OK}
    (result,) = sink.send([events[2]])
    assert (result.outcome, result.is_shared) == (Outcome.BAD_RECORD, False)
    assert outcomes(sink, events[3:]) == {Outcome.OK}


def test_record_that_only_the_broker_refuses_is_buried_alone(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.create_topic(unique_name("topic"), config={"max.message.bytes": "3000"})
    settings = KafkaSettings(brokers=(kafka.address,), topic=topic, compression="none")
    events = events_for(topic, 40)
    events[17] = enlarged(events[17], 4000)
    with running(KafkaSink(settings, EventBusSettings()), tmp_path, settings) as bus:
        deliver(bus, events)
        totals = bus.status().totals
        assert (totals.published, totals.dead) == (39, 1)
    assert stored_ids(kafka.address, topic) == ids(events[:17] + events[18:])
    (letter,) = read_letters(*letter_files(tmp_path / bus.name))
    assert (letter.event_id, letter.reason) == (events[17].event_id, "too_large")


# -- what consumers see


def test_routes_keys_headers_and_bytes_arrive_as_configured(
    kafka: Kafka, open_sink: Callable[..., KafkaSink]
) -> None:
    base = unique_name("topic")
    routed = kafka.create_topic(f"{base}.bitmex.trade")
    options: dict[str, Any] = {
        "topic_routing": {"trade": base + ".{{exchange}}.{{payloadCase}}"},
        "key_template": "{{symbol}}/{{meta.request_id}}",
        "static_headers": {"env": "test"},
        "meta_headers_prefix": "meta-",
    }
    sink = open_sink(brokers=(kafka.address,), topic=base, **options)
    events = events_for(base, 3, **options)
    send_until_ok(sink, events)
    records = read(kafka.address, routed)
    assert [record.value for record in records] == [event.data for event in events]
    assert {record.key for record in records} == {"XBTUSD/r-1"}
    assert records[0].headers == {
        "payloadCase": "trade",
        "dataType": "trade",
        "eventId": events[0].event_id,
        "deliveryId": events[0].delivery_id,
        "env": "test",
        "meta-request_id": "r-1",
    }
    decoded = Decoder().decode([record.value for record in records])
    assert [type(record) for record in decoded] == [Trade] * 3


@pytest.mark.parametrize("kind", ["local", "event"])
def test_record_time_can_be_the_time_of_the_event(
    kind: str, kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    sink = open_sink(brokers=(kafka.address,), topic=kafka_topic, timestamp=kind)
    send_until_ok(sink, events_for(kafka_topic, 1))
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "times", "log_level": 0})
    try:
        consumer.assign([TopicPartition(kafka_topic, 0, 0)])
        message = consumer.poll(30)
    finally:
        consumer.close()
    assert message is not None
    assert message.timestamp()[1] == 1_709_251_200_000


# -- logins

SCRAM = {
    "scram-sha-256": ScramMechanism.SCRAM_SHA_256,
    "scram-sha-512": ScramMechanism.SCRAM_SHA_512,
}


def test_wrong_password_is_refused_without_showing_it(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    login = {"sasl_mechanism": "plain", "sasl_username": "tester"}
    wrong = KafkaSettings(
        brokers=(kafka.sasl_address,),
        topic=kafka_topic,
        sasl_password=Secret("not-this-one"),
        **login,  # type: ignore[arg-type]
    )
    sink = KafkaSink(wrong, EventBusSettings())
    with pytest.raises(SinkError, match="rejected the authentication") as caught:
        sink.open()
    assert not isinstance(caught.value, SinkUnavailableError)
    assert "not-this-one" not in f"{caught.value} {wrong} {vars(sink)}"


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
def test_login_with_password_is_taken(
    mechanism: str, kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    ((user, password),) = KAFKA_USERS.items()
    if mechanism != "plain":
        _register_scram(kafka, mechanism, user, password)
    sink = open_sink(
        brokers=(kafka.sasl_address,),
        topic=kafka_topic,
        sasl_mechanism=mechanism,
        sasl_username=user,
        sasl_password=Secret(password),
    )
    events = events_for(kafka_topic, 5)
    send_until_ok(sink, events)
    assert stored_ids(kafka.address, kafka_topic) == ids(events)


@pytest.mark.soak
def test_login_withdrawn_mid_run_parks_until_it_is_given_back(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    _register_scram(kafka, "scram-sha-256", "visitor", "visitor-word")
    sink = open_sink(
        brokers=(kafka.sasl_address,),
        topic=kafka_topic,
        sasl_mechanism="scram-sha-256",
        sasl_username="visitor",
        sasl_password=Secret("visitor-word"),
        # A connection is asked for its login only when it is made.
        config={"connections.max.idle.ms": "2000"},
    )
    events = events_for(kafka_topic, 20)
    send_until_ok(sink, events[:10])
    _unregister_scram(kafka, "visitor")
    sink.idle(4)
    for _ in range(3):
        results = sink.send(events[10:])
        said = {(result.outcome, result.reason) for result in results}
        assert said == {(Outcome.BAD_DESTINATION, "not_authenticated")}
        assert not any("visitor-word" in result.detail for result in results)
    _register_scram(kafka, "scram-sha-256", "visitor", "visitor-word")
    send_until_ok(sink, events[10:])
    assert stored_ids(kafka.address, kafka_topic) == ids(events)


def _register_scram(kafka: Kafka, mechanism: str, user: str, password: str) -> None:
    credential = ScramCredentialInfo(SCRAM[mechanism], 4096)
    _alter_scram(kafka, UserScramCredentialUpsertion(user, credential, password.encode()))


def _unregister_scram(kafka: Kafka, user: str) -> None:
    _alter_scram(kafka, UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256))


def _alter_scram(kafka: Kafka, alteration: Any) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    for done in admin.alter_user_scram_credentials([alteration]).values():
        done.result(240)


def test_encrypted_connection_needs_the_authority(
    kafka: Kafka,
    kafka_topic: str,
    certificates: Certificates,
    open_sink: Callable[..., KafkaSink],
) -> None:
    sink = open_sink(brokers=(kafka.tls_address,), topic=kafka_topic, ssl_ca=certificates.ca)
    events = events_for(kafka_topic, 5)
    send_until_ok(sink, events)
    assert stored_ids(kafka.address, kafka_topic) == ids(events)
    with pytest.raises(SinkUnavailableError):
        open_sink(brokers=(kafka.tls_address,), topic=kafka_topic, ssl=True)


# -- schema registry


def test_framed_records_are_read_by_the_standard_deserializer(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    with RegistryStandIn(login=("user", "word")) as registry:
        sink = open_sink(
            brokers=(kafka.address,),
            topic=kafka_topic,
            schema_registry_url=registry.url,
            schema_registry_auth_username="user",
            schema_registry_auth_password=Secret("word"),
        )
        events = events_for(kafka_topic, 5)
        send_until_ok(sink, events)
        records = read(kafka.address, kafka_topic)
        (number,) = registry.schemas
        prefix = b"\x00" + number.to_bytes(4, "big") + b"\x00"
        assert [record.value for record in records] == [prefix + event.data for event in events]
        url = registry.url.replace("://", "://user:word@")
        with closing(StandardClient(kafka_topic, url)) as client:
            messages = client.deserialize(records)
    assert [message.SerializeToString(deterministic=True) for message in messages] == [
        NormalizedEvent.FromString(event.data).SerializeToString(deterministic=True)
        for event in events
    ]


@pytest.mark.soak
def test_real_registry_takes_our_records_for_those_of_the_standard_serializer(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    obtain_registry()
    registry = Registry()
    options = {"brokers": (kafka.address,), "topic": kafka_topic}
    sink = open_sink(**options, schema_registry_url=registry.address)
    events = events_for(kafka_topic, 5)
    # Down at the start: events wait, and go when it is there.
    assert outcomes(sink, events) == {Outcome.TRANSIENT}
    with registry:
        send_until_ok(sink, events)
        records = read(kafka.address, kafka_topic)
        expected = [NormalizedEvent.FromString(event.data) for event in events]
        with closing(StandardClient(kafka_topic, registry.address)) as client:
            # The same schema has the same id, whoever registers it.
            assert client.serialize(expected[0])[:6] == records[0].value[:6]
            assert client.deserialize(records) == expected


class StandardClient:
    """What confluent-kafka gives to producers and consumers that use a registry."""

    def __init__(self, topic: str, url: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._protobuf = importlib.import_module("confluent_kafka.schema_registry.protobuf")
            registry = importlib.import_module("confluent_kafka.schema_registry")
            serialization = importlib.import_module("confluent_kafka.serialization")
        self._client = registry.SchemaRegistryClient({"url": url})
        self._context = serialization.SerializationContext(topic, serialization.MessageField.VALUE)

    def close(self) -> None:
        self._client.close()

    def serialize(self, message: NormalizedEvent) -> bytes:
        write = self._protobuf.ProtobufSerializer(NormalizedEvent, self._client, _NEW_FORMAT)
        return bytes(write(message, self._context))

    def deserialize(self, records: list[Record]) -> list[Any]:
        read_one = self._protobuf.ProtobufDeserializer(NormalizedEvent, _NEW_FORMAT, self._client)
        return [read_one(record.value, self._context) for record in records]


_NEW_FORMAT = {"use.deprecated.format": False}


def test_events_wait_for_a_registry_that_is_down(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    with RegistryStandIn() as registry:
        registry.refusals.append((503, {"message": "starting"}))
        sink = open_sink(
            brokers=(kafka.address,), topic=kafka_topic, schema_registry_url=registry.url
        )
        events = events_for(kafka_topic, 5)
        results = sink.send(events)
        assert {(r.outcome, r.reason) for r in results} == {(Outcome.TRANSIENT, "schema_registry")}
        send_until_ok(sink, events)
    assert stored_ids(kafka.address, kafka_topic) == ids(events)


def test_refused_schema_parks_the_topic(
    kafka: Kafka, kafka_topic: str, open_sink: Callable[..., KafkaSink]
) -> None:
    with RegistryStandIn() as registry:
        registry.refusals.append((409, {"message": "incompatible"}))
        sink = open_sink(
            brokers=(kafka.address,), topic=kafka_topic, schema_registry_url=registry.url
        )
        (result,) = sink.send(events_for(kafka_topic, 1))
    assert (result.outcome, result.reason) == (Outcome.BAD_DESTINATION, "schema_registry")
    assert "incompatible" in result.detail


# -- tokens

OAUTH_BROKER = {
    "listener.name.sasl.sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.sasl.oauthbearer.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";'
    ),
}


class TokenServer(BaseHTTPRequestHandler):
    """Gives unsigned tokens, which a broker without keys accepts, to the one client it knows."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        is_known = self.headers["Authorization"] == "Basic " + _base64(b"client:client-secret=")
        now = int(time.time())
        claims = {"sub": "tester", "iat": now, "exp": now + 300}
        token = ".".join((_part({"alg": "none"}), _part(claims), ""))
        answer = {"access_token": token} if is_known else {"error": "invalid_client"}
        text = json.dumps(answer).encode()
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _part(claims: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()


@pytest.mark.soak
def test_login_with_tokens_of_a_token_service(open_sink: Callable[..., KafkaSink]) -> None:
    with (
        Kafka(users={}, properties=OAUTH_BROKER) as broker,
        ThreadingHTTPServer(("127.0.0.1", 0), TokenServer) as server,
    ):
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        topic = broker.create_topic(unique_name("topic"))
        sink = open_sink(
            brokers=(broker.sasl_address,),
            topic=topic,
            sasl_mechanism="oauthbearer",
            oauth_token_url=f"http://127.0.0.1:{server.server_port}/token",
            oauth_client_id="client",
            oauth_client_secret=Secret("client-secret="),
        )
        events = events_for(topic, 5)
        send_until_ok(sink, events)
        assert stored_ids(broker.address, topic) == ids(events)
        server.shutdown()
