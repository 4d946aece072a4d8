"""The Event Hubs sink against a namespace of our own that can refuse, drop and hang."""

import asyncio
import base64
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from proton import Message

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.decode import Decoder
from tardis_machine.bronze.envelope import parse_event
from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.model.records import Trade
from tardis_machine.model.settings import Secret
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.event_hubs.sink import EventHubsSink
from tests.contract.sinks import (
    SOON_SECONDS,
    BusUnderTest,
    Received,
    ServerSinkContract,
    ServerUnderTest,
    enlarged,
    make_events,
    wait_until,
)
from tests.servers.event_hubs import EventHubs
from tests.servers.event_hubs_faults import (
    DETACH_FORCED,
    SERVER_BUSY,
    TOO_LARGE,
    UNAUTHORIZED,
    Fault,
    Hang,
    Reject,
    Release,
)
from tests.servers.faults import AbortAfter, AbortBefore, Delay
from tests.servers.plugin import unique_name
from tests.servers.readers import Received as Record
from tests.servers.readers import read_event_hub
from tests.servers.tcp_proxy import MakeProxy, TcpProxy
from tests.servers.tls import Certificates
from tests.servers.websocket_bridge import WebSocketBridge

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("unclosed_sockets_allowed")]

OpenSink = Callable[..., EventHubsSink]
SYMBOLS = tuple(f"S{number}" for number in range(12))


def read(namespace: EventHubs, hub: str) -> list[Record]:
    """Return what the hub holds, without the seconds that a consumer takes to start."""
    found = namespace.hub(hub)
    assert found is not None
    return [
        _received(event.encoded, str(number))
        for number, partition in enumerate(found.partitions)
        for event in list(partition.events)
    ]


def _received(encoded: bytes, partition: str) -> Record:
    message = Message()
    message.decode(encoded)
    headers = dict(message.properties or {})
    if message.id is not None:
        headers["message_id"] = message.id
    key = (message.annotations or {}).get("x-opt-partition-key")
    return Record(value=bytes(message.body), key=key, headers=headers, partition=partition)


def key_in(data: bytes) -> str:
    """Return the default key of an envelope."""
    event = parse_event(data)
    case = PayloadCase(event.WhichOneof("payload") or "")
    return f"{event.exchange}|{event.symbol}|{case.camel}"


class EventHubsUnderTest(ServerUnderTest):
    """A hub of two partitions behind a proxy."""

    too_large_bytes = 1_048_577

    def __init__(self, namespace: EventHubs, proxy: TcpProxy, hub: str, **options: Any) -> None:
        address = Secret(namespace.address_at(proxy.endpoint))
        settings = EventHubsSettings(connection_string=address, event_hub_name=hub, **options)
        super().__init__(proxy, settings)
        self._namespace = namespace
        self._hub = hub

    def received(self) -> list[Received]:
        return [
            Received(
                key_in(record.value),
                record.headers["eventId"],
                record.headers["deliveryId"],
                record.value,
            )
            for record in read(self._namespace, self._hub)
        ]


class TestEventHubs(ServerSinkContract):
    @pytest.fixture
    def bus(self, event_hubs: EventHubs, tcp_proxy: MakeProxy, event_hub: str) -> BusUnderTest:
        return EventHubsUnderTest(event_hubs, tcp_proxy(event_hubs.endpoint), event_hub)


@pytest.mark.soak
class TestEventHubsByPartition(ServerSinkContract):
    """The same with partitions of our own choice."""

    @pytest.fixture
    def bus(self, event_hubs: EventHubs, tcp_proxy: MakeProxy, event_hub: str) -> BusUnderTest:
        proxy = tcp_proxy(event_hubs.endpoint)
        return EventHubsUnderTest(event_hubs, proxy, event_hub, partitioning="client")


@pytest.fixture
def open_sink(event_hubs: EventHubs) -> Iterator[OpenSink]:
    """Give a function that opens a sink with some settings."""
    sinks: list[EventHubsSink] = []

    def make(*, message_id: Any = "sequence", **options: Any) -> EventHubsSink:
        given = {"connection_string": Secret(event_hubs.address)} | options
        sink = EventHubsSink(EventHubsSettings(**given), EventBusSettings(message_id=message_id))
        sinks.append(sink)
        sink.open()
        return sink

    yield make
    for sink in sinks:
        sink.close(2)


def router_of(hub: str, **options: Any) -> Any:
    text = Secret("Endpoint=sb://h;SharedAccessKeyName=k;SharedAccessKey=x")
    return EventHubsSettings(connection_string=text, event_hub_name=hub, **options).router()


def events_for(hub: str, count: int, **options: Any) -> list[Event]:
    return make_events(router_of(hub), count, **options)


def outcomes(results: Sequence[Result]) -> set[Outcome]:
    return {result.outcome for result in results}


def kinds(results: Sequence[Result]) -> set[tuple[str, str]]:
    return {(result.outcome.value, result.reason) for result in results}


def send_until_ok(sink: EventHubsSink, events: list[Event]) -> list[Result]:
    """Send as a sender would; return what was said on the way."""
    said: list[Result] = []
    left = events
    deadline = time.monotonic() + 240
    while left:
        assert time.monotonic() < deadline, said[-3:]
        results = list(sink.send(left))
        said += results
        left = [e for e, r in zip(left, results, strict=True) if r.outcome is not Outcome.OK]
        if Outcome.CLIENT_LOST in outcomes(results):
            sink.open()
    return said


def stored_ids(event_hubs: EventHubs, hub: str) -> list[str]:
    return [record.headers["deliveryId"] for record in read(event_hubs, hub)]


def ids(events: Sequence[Event]) -> list[str]:
    return [event.delivery_id for event in events]


# -- refusals and outages


REFUSALS: list[tuple[Fault, tuple[str, str], float]] = [
    (SERVER_BUSY, ("transient", "throttled"), 4.0),
    (Reject("amqp:resource-limit-exceeded"), ("transient", "throttled"), 4.0),
    (Reject("amqp:internal-error"), ("transient", "internal_error"), 0.0),
    (Reject("com.microsoft:timeout"), ("transient", "service_timeout"), 0.0),
    (Reject("com.microsoft:operation-cancelled"), ("transient", "cancelled"), 0.0),
    (TOO_LARGE, ("bad_record", "too_large"), 0.0),
    (Reject("com.microsoft:argument-error"), ("bad_record", "invalid_record"), 0.0),
    (UNAUTHORIZED, ("bad_target", "not_authorized"), 0.0),
    (Reject("amqp:not-allowed"), ("bad_target", "not_allowed"), 0.0),
    (Reject("com.microsoft:entity-disabled"), ("bad_target", "hub_disabled"), 0.0),
    (DETACH_FORCED, ("transient", "detached"), 0.0),
    (AbortBefore(), ("ambiguous", "connection_lost"), 0.0),
]


def test_refused_batch_says_what_it_means_and_later_succeeds(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    sink = open_sink(event_hub_name=event_hub)
    # One link for all of them: opening one takes the client half a second.
    for number, (fault, expected, pause_seconds) in enumerate(REFUSALS):
        events = events_for(event_hub, 3, first=10 * number)
        event_hubs.always(fault)
        results = sink.send(events)
        assert kinds(results) == {expected}, fault
        assert {result.retry_after_seconds for result in results} == {pause_seconds}
        assert all(result.is_shared == (expected[0] == "bad_record") for result in results)
        event_hubs.heal()
        assert outcomes(sink.send(events)) == {Outcome.OK}
    assert event_hubs.events_total(event_hub) == 3 * len(REFUSALS)


def test_failed_batch_holds_back_later_ones_of_its_key_and_no_others(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    sink = open_sink(event_hub_name=event_hub, max_batch_size=2)
    events = events_for(event_hub, 8, symbols=("A", "B"))
    # The client sends a batch twice by itself.
    event_hubs.plan(SERVER_BUSY, SERVER_BUSY)
    results = sink.send(events)
    said = [result.reason or result.outcome.value for result in results]
    assert said == ["throttled", "ok", "throttled", "ok", "held_back", "ok", "held_back", "ok"]
    send_until_ok(sink, [events[n] for n in (0, 2, 4, 6)])
    stored = stored_ids(event_hubs, event_hub)
    for symbol in (0, 1):
        wanted = ids(events[symbol::2])
        assert [name for name in stored if name in wanted] == wanted


def test_lost_answer_makes_duplicates_with_the_same_message_id(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    sink = open_sink(event_hub_name=event_hub)
    events = events_for(event_hub, 5)
    event_hubs.plan(AbortAfter())
    # The client sends again by itself and calls it a success.
    assert outcomes(sink.send(events)) == {Outcome.OK}
    records = read(event_hubs, event_hub)
    assert Counter(record.headers["message_id"] for record in records) == Counter(ids(events) * 2)


def test_answer_lost_twice_is_in_doubt(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    sink = open_sink(event_hub_name=event_hub)
    events = events_for(event_hub, 5)
    event_hubs.plan(AbortAfter(), AbortAfter())
    assert kinds(sink.send(events)) == {("ambiguous", "connection_lost")}
    send_until_ok(sink, events)
    assert set(stored_ids(event_hubs, event_hub)) == set(ids(events))


@pytest.mark.parametrize("fault", [Release(), Hang()], ids=["release", "hang"])
def test_hanging_client_is_replaced_after_the_deadline(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink, fault: Fault
) -> None:
    sink = open_sink(event_hub_name=event_hub, request_timeout_ms=1500)
    events = events_for(event_hub, 6, symbols=("A", "B"))
    sink.send(events_for(event_hub, 1, first=100))
    event_hubs.always(fault)
    began = time.monotonic()
    results = sink.send(events)
    assert time.monotonic() - began < SOON_SECONDS
    assert kinds(results) == {("ambiguous", "timeout"), ("transient", "held_back")}
    event_hubs.heal()
    send_until_ok(sink, events)
    assert set(ids(events)) <= set(stored_ids(event_hubs, event_hub))
    sink.close(2)
    wait_until(lambda: not threads_left(), "the threads left behind end")


def threads_left() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("event-hubs")]


def test_slow_answer_is_not_waited_for(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    sink = open_sink(event_hub_name=event_hub, request_timeout_ms=1500)
    events = events_for(event_hub, 3)
    sink.send(events_for(event_hub, 1, first=100))
    event_hubs.plan(Delay(6.0))
    assert outcomes(sink.send(events)) == {Outcome.AMBIGUOUS}
    send_until_ok(sink, events)


def test_half_open_connection_is_noticed_within_the_request_timeout(
    event_hubs: EventHubs,
    event_hub: str,
    open_sink: OpenSink,
    tcp_proxy: MakeProxy,
) -> None:
    proxy = tcp_proxy(event_hubs.endpoint)
    address = Secret(event_hubs.address_at(proxy.endpoint))
    sink = open_sink(
        connection_string=address,
        event_hub_name=event_hub,
        request_timeout_ms=1500,
        connect_timeout_ms=3000,
    )
    events = events_for(event_hub, 10)
    send_until_ok(sink, events[:5])
    proxy.pause()
    began = time.monotonic()
    assert outcomes(sink.send(events[5:])) == {Outcome.AMBIGUOUS}
    assert time.monotonic() - began < SOON_SECONDS
    with pytest.raises(SinkUnavailableError):
        sink.open()
    proxy.heal()
    sink.open()
    send_until_ok(sink, events[5:])
    assert set(stored_ids(event_hubs, event_hub)) == set(ids(events))


@pytest.mark.parametrize(
    ("is_encrypted", "transport"),
    [(False, "amqp"), (True, "amqp"), (True, "amqp-websockets")],
)
def test_clients_that_hang_while_they_connect_leave_nothing_behind(
    event_hubs: EventHubs, event_hub: str, transport: Any, *, is_encrypted: bool
) -> None:
    # A peer that takes connections and says nothing.
    with socket.create_server(("127.0.0.1", 0)) as peer:
        endpoint = f"127.0.0.1:{peer.getsockname()[1]}"
        address = event_hubs.tls_address if is_encrypted else event_hubs.address
        settings = EventHubsSettings(
            connection_string=Secret(address),
            custom_endpoint=f"sb://{endpoint}",
            event_hub_name=event_hub,
            transport=transport,
            connect_timeout_ms=100,
        )
        sink = EventHubsSink(settings, EventBusSettings())
        for _ in range(5):
            with pytest.raises(SinkUnavailableError):
                sink.open()
        wait_until(lambda: not threads_left(), "the threads left behind end")


def test_clients_whose_connections_lead_nowhere_leave_nothing_behind(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink, tcp_proxy: MakeProxy
) -> None:
    proxy = tcp_proxy(event_hubs.endpoint)
    sink = open_sink(
        connection_string=Secret(event_hubs.address_at(proxy.endpoint)),
        event_hub_name=event_hub,
        request_timeout_ms=1000,
    )
    events = events_for(event_hub, 20, symbols=SYMBOLS)
    for _ in range(4):
        # Also those that the clients left behind have opened since.
        proxy.forget()
        send_until_ok(sink, events)
    wait_until(lambda: not threads_left(), "the threads left behind end")


def test_hub_behind_tls_is_known_by_its_certificate(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink, certificates: Certificates
) -> None:
    with TcpProxy(event_hubs.endpoint, certificates=certificates) as proxy:
        options = {
            "connection_string": Secret(event_hubs.tls_address),
            "custom_endpoint": f"sb://{proxy.endpoint}",
            "event_hub_name": event_hub,
        }
        with pytest.raises(SinkUnavailableError, match="certificate"):
            open_sink(**options)
        sink = open_sink(ca=certificates.ca, **options)
        events = events_for(event_hub, 10)
        send_until_ok(sink, events)
        sink.close(2)
    assert set(stored_ids(event_hubs, event_hub)) == set(ids(events))


def test_authorities_that_are_none_are_named(
    event_hub: str, open_sink: OpenSink, tmp_path: Path
) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("no certificate")
    with pytest.raises(SinkUnavailableError, match="certificate"):
        open_sink(event_hub_name=event_hub, ca=ca)


def test_hub_is_reached_by_websocket(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink, certificates: Certificates
) -> None:
    with WebSocketBridge(event_hubs.endpoint, certificates) as bridge:
        sink = open_sink(
            connection_string=Secret(event_hubs.tls_address),
            custom_endpoint=f"sb://{bridge.endpoint}/$servicebus/websocket/",
            event_hub_name=event_hub,
            transport="amqp-websockets",
            ca=certificates.ca,
        )
        events = events_for(event_hub, 10)
        send_until_ok(sink, events)
        assert bridge.connections_total > 0
        sink.close(2)
    assert set(stored_ids(event_hubs, event_hub)) == set(ids(events))


def test_stopped_namespace_delays_events_until_it_is_back(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    sink = open_sink(event_hub_name=event_hub)
    events = events_for(event_hub, 20)
    send_until_ok(sink, events[:10])
    event_hubs.stop()
    assert outcomes(sink.send(events[10:])) <= {Outcome.AMBIGUOUS, Outcome.CLIENT_LOST}
    assert kinds(sink.send(events[10:])) == {("client_lost", "unreachable")}
    with pytest.raises(SinkUnavailableError, match="not reachable"):
        sink.open()
    event_hubs.start()
    sink.open()
    send_until_ok(sink, events[10:])
    assert list(dict.fromkeys(stored_ids(event_hubs, event_hub))) == ids(events)


def test_missing_hub_is_a_bad_target_until_it_is_there(
    event_hubs: EventHubs, open_sink: OpenSink
) -> None:
    hub = unique_name("hub")
    sink = open_sink(event_hub_name=hub)
    events = events_for(hub, 3)
    assert kinds(sink.send(events)) == {("bad_target", "no_destination")}
    event_hubs.create_hub(hub)
    assert outcomes(sink.send(events)) == {Outcome.OK}


def test_wrong_key_parks_the_bus_and_is_not_shown(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    wrong = base64.b64encode(b"a wrong key of the right size ..").decode()
    right = event_hubs.address
    text = right[: right.index("SharedAccessKey=")] + (
        f"SharedAccessKey={wrong};UseDevelopmentEmulator=true"
    )
    with pytest.raises(SinkError) as caught:
        open_sink(connection_string=Secret(text), event_hub_name=event_hub)
    assert not caught.value.retryable
    assert wrong not in f"{caught.value!r}"


def test_login_refused_in_between_is_a_bad_target_until_it_is_put_right(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    sink = open_sink(event_hub_name=event_hub)
    event_hubs.refuse_tokens()
    # The client logs in again after it lost its connection.
    event_hubs.plan(AbortBefore())
    events = events_for(event_hub, 2)
    assert kinds(sink.send(events)) == {("bad_target", "not_authenticated")}
    event_hubs.heal()
    assert outcomes(sink.send(events)) == {Outcome.OK}


# -- what arrives


def test_table_of_routes_properties_and_keys_arrives_exactly(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    options: dict[str, Any] = {
        "event_hub_routing": {"trade": event_hub},
        "partition_key_template": "{{symbol}}",
        "static_headers": {"env": "test"},
        "meta_headers_prefix": "m_",
    }
    sink = open_sink(event_hub_name="unused", **options)
    events = make_events(
        router_of("unused", **options), 4, symbols=("XBTUSD", "", ".B *>", "x" * 300)
    )
    assert outcomes(sink.send(events)) == {Outcome.OK}
    consumed = asyncio.run(read_event_hub(event_hubs.address, event_hub))
    records = {record.key or "": record for record in consumed}
    assert set(records) == {event.route.key for event in events}
    assert {"XBTUSD", "_", ".B *>"} < set(records)
    (long,) = [key for key in records if len(key) > 100]
    assert (len(long), long[:95], long[95]) == (128, "x" * 95, "#")
    first = records["XBTUSD"]
    assert first.headers == {
        "m_request_id": "r-1",
        "env": "test",
        "payloadCase": "trade",
        "dataType": "trade",
        "eventId": events[0].event_id,
        "deliveryId": events[0].delivery_id,
        "message_id": events[0].delivery_id,
    }
    assert first.value == events[0].data
    (record,) = Decoder().decode([records[".B *>"].value])
    assert isinstance(record, Trade)
    assert record.symbol == ".B *>"


@pytest.mark.parametrize(("kind", "expected"), [("content", "event_id"), ("off", None)])
def test_message_id_follows_the_settings(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink, kind: str, expected: str | None
) -> None:
    sink = open_sink(event_hub_name=event_hub, message_id=kind)
    (event,) = events_for(event_hub, 1)
    sink.send([event])
    (record,) = read(event_hubs, event_hub)
    wanted = None if expected is None else getattr(event, expected)
    assert record.headers.get("message_id") == wanted


def test_own_partitioning_makes_one_batch_per_partition(
    event_hubs: EventHubs, open_sink: OpenSink
) -> None:
    hub = event_hubs.create_hub(unique_name("hub"), partitions=4)
    sink = open_sink(event_hub_name=hub, partitioning="client")
    events = events_for(hub, 120, symbols=SYMBOLS)
    before = event_hubs.sends_total
    assert outcomes(sink.send(events)) == {Outcome.OK}
    assert event_hubs.sends_total - before <= 4
    places: dict[str, set[str]] = {}
    for record in read(event_hubs, hub):
        places.setdefault(key_in(record.value), set()).add(record.partition)
    assert {len(partitions) for partitions in places.values()} == {1}
    assert len({one for partitions in places.values() for one in partitions}) > 1


def test_round_robin_needs_one_batch_for_all_keys(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    sink = open_sink(event_hub_name=event_hub, partitioning="round-robin")
    before = event_hubs.sends_total
    assert outcomes(sink.send(events_for(event_hub, 60, symbols=SYMBOLS))) == {Outcome.OK}
    assert event_hubs.sends_total - before == 1
    assert {record.key for record in read(event_hubs, event_hub)} == {None}


def test_batches_stay_below_the_maximum_of_the_link(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    sink = open_sink(event_hub_name=event_hub, max_batch_bytes=100_000_000)
    events = [enlarged(event, 300_000) for event in events_for(event_hub, 8)]
    before = event_hubs.sends_total
    assert outcomes(sink.send(events)) == {Outcome.OK}
    assert event_hubs.sends_total - before == 3
    assert stored_ids(event_hubs, event_hub) == ids(events)


def test_smaller_limits_of_our_own_are_kept(
    event_hubs: EventHubs, event_hub: str, open_sink: OpenSink
) -> None:
    sink = open_sink(event_hub_name=event_hub, max_batch_bytes=5000, max_record_bytes=2000)
    events = events_for(event_hub, 30)
    events[3] = enlarged(events[3], 2001)
    before = event_hubs.sends_total
    results = sink.send(events)
    assert (results[3].outcome, results[3].reason) == (Outcome.BAD_RECORD, "too_large")
    assert outcomes([*results[:3], *results[4:]]) == {Outcome.OK}
    assert event_hubs.sends_total - before > 1
