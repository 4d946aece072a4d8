"""Event Hubs by the Kafka protocol, against a real broker with the login of a namespace."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from azure.eventhub import EventData
from proton import Message

from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.buses.results import Outcome
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.lake.buses.event_hubs.reader import EventHubsBus
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.model.settings import Secret
from tardis_machine.sinks.base import Event, Sink
from tardis_machine.sinks.event_hubs.records import RecordMaker
from tardis_machine.sinks.registry import make_sink
from tests.contract.bus_readers import POLICY, MicroBatches, all_envelopes
from tests.contract.sinks import (
    BusUnderTest,
    Received,
    ServerSinkContract,
    ServerUnderTest,
    enlarged,
    make_events,
)
from tests.integration.sinks.test_kafka import read
from tests.servers.event_hubs import EventHubs
from tests.servers.kafka import Kafka
from tests.servers.plugin import KAFKA_HUBS, unique_name
from tests.servers.readers import Received as Record
from tests.servers.tcp_proxy import TcpProxy
from tests.servers.tls import Certificates

pytestmark = pytest.mark.broker

DELIVERY = EventBusSettings(producer_id="tester")
SYMBOLS = tuple(f"S{number}" for number in range(12))

OpenSink = Callable[..., Sink]


def settings_of(kafka: Kafka, hub: str, **options: Any) -> EventHubsSettings:
    assert kafka.hubs is not None
    given: dict[str, Any] = {
        "connection_string": Secret(KAFKA_HUBS),
        "custom_endpoint": kafka.hubs_address,
        "ca": kafka.hubs.certificates.ca,
        "event_hub_name": hub,
        "transport": "kafka",
    }
    return EventHubsSettings(**{**given, **options})


class HubUnderTest(ServerUnderTest):
    """A hub of two partitions behind a proxy, with TLS and the login of a namespace."""

    too_large_bytes = 1_000_001

    def __init__(self, kafka: Kafka, proxy: TcpProxy) -> None:
        self._kafka = kafka
        self._hub = kafka.create_topic(unique_name("hub"), partitions=2)
        super().__init__(proxy, settings_of(kafka, self._hub))

    def received(self) -> list[Received]:
        return [
            Received(
                record.key or "",
                record.headers["eventId"],
                record.headers["deliveryId"],
                record.value,
            )
            for record in read(self._kafka.address, self._hub)
        ]


class TestEventHubsByKafka(ServerSinkContract):
    @pytest.fixture
    def bus(self, kafka: Kafka, kafka_hubs_proxy: TcpProxy) -> BusUnderTest:
        return HubUnderTest(kafka, kafka_hubs_proxy)


@pytest.fixture
def open_sink(kafka: Kafka, kafka_hubs_proxy: TcpProxy) -> Iterator[OpenSink]:
    """Give a function that opens a sink with some settings."""
    sinks: list[Sink] = []

    def make(hub: str, **options: Any) -> Sink:
        sink = make_sink(settings_of(kafka, hub, **options), DELIVERY)
        sinks.append(sink)
        sink.open()
        return sink

    yield make
    for sink in sinks:
        with suppress(SinkError):
            sink.close(1)


def send_until_ok(sink: Sink, events: Sequence[Event]) -> None:
    deadline = time.monotonic() + 240
    while {result.outcome for result in sink.send(events)} != {Outcome.OK}:
        assert time.monotonic() < deadline


def amqp_data(settings: EventHubsSettings, event: Event) -> EventData:
    """Return an event as it is sent by AMQP."""
    return RecordMaker(settings, DELIVERY.message_id).data(event)


def test_key_body_and_properties_are_those_of_amqp(kafka: Kafka, open_sink: OpenSink) -> None:
    routed = kafka.create_topic(unique_name("hub"))
    options: dict[str, Any] = {
        "event_hub_routing": {"trade": routed},
        "partition_key_template": "{{symbol}}",
        "static_headers": {"env": "test"},
        "meta_headers_prefix": "m_",
    }
    settings = settings_of(kafka, "unused", **options)
    events = make_events(settings.router(), 4, symbols=("XBTUSD", "", ".B *>", "x" * 300))
    send_until_ok(open_sink("unused", **options), events)
    records = {record.headers["eventId"]: record for record in read(kafka.address, routed)}
    assert len(records) == len(events)
    for event in events:
        record, sent = records[event.event_id], amqp_data(settings, event)
        assert record.value == b"".join(sent.body)
        assert record.headers == sent.properties
        # Also a key that is too long for the service is the same by both.
        assert record.key == event.route.key
        assert len(record.key) <= 128


def test_lake_reads_what_was_sent_by_kafka(
    kafka: Kafka, open_sink: OpenSink, event_hubs: EventHubs, unclosed_sockets_allowed: None
) -> None:
    hub = kafka.create_topic(unique_name("hub"))
    settings = settings_of(kafka, hub, static_headers={"env": "test"})
    events = make_events(settings.router(), 50, symbols=SYMBOLS)
    send_until_ok(open_sink(hub, static_headers={"env": "test"}), events)
    event_hubs.create_hub(hub)
    stored = event_hubs.hub(hub)
    assert stored is not None
    for record in read(kafka.address, hub):
        message = bytes(as_amqp(record).encode())
        event_hubs.do(lambda message=message: stored.store(message, None))
    # The address of the Kafka endpoint is none for AMQP, by which the lake reads.
    reader = EventHubsBus(settings_of(kafka, hub, connection_string=Secret(event_hubs.address)))
    rows = MicroBatches(reader, POLICY).run()
    assert all_envelopes(rows) == {event.data: 1 for event in events}


def as_amqp(record: Record) -> Message:
    """Return a Kafka record as the service gives it to AMQP consumers: headers hold bytes."""
    properties = {name: value.encode() for name, value in record.headers.items()}
    annotations = {"x-opt-partition-key": record.key}
    return Message(record.value, inferred=True, properties=properties, annotations=annotations)


def test_events_of_a_key_share_a_partition_unless_order_is_not_wanted(
    kafka: Kafka, open_sink: OpenSink
) -> None:
    for partitioning, is_spread in (("key", False), ("client", False), ("round-robin", True)):
        hub = kafka.create_topic(unique_name("hub"), partitions=4)
        settings = settings_of(kafka, hub)
        events = make_events(settings.router(), 120, symbols=("XBTUSD", "ETHUSD"))
        send_until_ok(open_sink(hub, partitioning=partitioning), events)
        places: dict[str, set[str]] = {}
        for record in read(kafka.address, hub):
            places.setdefault(record.key or "", set()).add(record.partition)
        assert all((len(found) > 1) is is_spread for found in places.values())


def test_request_never_passes_the_limit_of_the_service(kafka: Kafka, open_sink: OpenSink) -> None:
    # The service closes the connection at a larger one; this broker takes it.
    config = {"max.message.bytes": "4000000"}
    hub = kafka.create_topic(unique_name("hub"), config=config)
    sink = open_sink(hub, max_batch_bytes=3_000_000, max_record_bytes=3_000_000)
    events = make_events(settings_of(kafka, hub).router(), 3)
    events[1] = enlarged(events[1], 1_046_528)
    results = sink.send(events)
    assert (results[1].outcome, results[1].reason) == (Outcome.BAD_RECORD, "too_large")
    assert sink.max_batch_bytes < 1_046_528


def test_wrong_connection_string_is_refused_and_not_shown(
    kafka: Kafka, kafka_topic: str, kafka_hubs_proxy: TcpProxy
) -> None:
    wrong = Secret(KAFKA_HUBS.replace("secret==", "mistake=="))
    settings = settings_of(kafka, kafka_topic, connection_string=wrong)
    sink = make_sink(settings, DELIVERY)
    with pytest.raises(SinkError, match="rejected the authentication") as caught:
        sink.open()
    assert not isinstance(caught.value, SinkUnavailableError)
    assert "mistake" not in f"{caught.value} {settings} {vars(sink)}"


def test_namespace_is_known_by_its_certificate(
    kafka: Kafka, kafka_topic: str, open_sink: OpenSink, certificates: Certificates
) -> None:
    with pytest.raises(SinkUnavailableError):
        open_sink(kafka_topic, ca=None, connect_timeout_ms=2000)
    events = make_events(settings_of(kafka, kafka_topic).router(), 5)
    send_until_ok(open_sink(kafka_topic, ca=certificates.ca), events)


def test_missing_hub_waits_until_it_is_there(kafka: Kafka, open_sink: OpenSink) -> None:
    hub = unique_name("hub")
    sink = open_sink(hub)
    events = make_events(settings_of(kafka, hub).router(), 3)
    said = {(result.outcome, result.reason) for result in sink.send(events)}
    assert said == {(Outcome.BAD_DESTINATION, "no_destination")}
    kafka.create_topic(hub)
    send_until_ok(sink, events)
