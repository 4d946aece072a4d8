"""The NATS sink against real servers: alone, failing, with logins, and as a cluster."""

import asyncio
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client

from tardis_machine.bronze.decode import Decoder
from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.model.records import Trade
from tardis_machine.model.settings import Secret
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.nats.sink import NatsSink
from tests.contract.sinks import (
    SOON_SECONDS,
    BusUnderTest,
    Received,
    ServerSinkContract,
    ServerUnderTest,
    enlarged,
    make_events,
)
from tests.servers.nats import Nats, NatsCluster, make_nkey
from tests.servers.plugin import unique_name
from tests.servers.ports import free_port
from tests.servers.readers import Received as Message
from tests.servers.readers import connect_nats, read_nats
from tests.servers.tcp_proxy import Flow, MakeProxy, TcpProxy
from tests.servers.tls import Certificates

pytestmark = pytest.mark.broker

OpenSink = Callable[..., NatsSink]
SECONDS = 300


class NatsUnderTest(ServerUnderTest):
    """A stream of a server behind a proxy."""

    too_large_bytes = 1_048_577
    deadline_option = "ack_timeout_ms"

    def __init__(self, server: Nats, proxy: TcpProxy, stream: str) -> None:
        settings = NatsSettings(
            servers=(server.address_at(proxy.endpoint),),
            subject_template=f"{stream}.{{{{symbol}}}}",
            max_batch_bytes=4_000_000,
        )
        super().__init__(proxy, settings)
        self._server = server
        self._stream = stream

    def received(self) -> list[Received]:
        return [
            Received(
                message.key or "",
                message.headers["eventId"],
                message.headers["deliveryId"],
                message.value,
            )
            for message in read(self._server.address, self._stream)
        ]


class TestNats(ServerSinkContract):
    @pytest.fixture
    def bus(self, nats_server: Nats, tcp_proxy: MakeProxy, nats_stream: str) -> BusUnderTest:
        return NatsUnderTest(nats_server, tcp_proxy(nats_server.endpoint), nats_stream)


class TestNatsByPublicCalls(TestNats):
    """The same with a version of nats-py whose inner places nobody has looked at."""

    def make_sink(self, bus: BusUnderTest, delivery: EventBusSettings) -> NatsSink:
        assert isinstance(bus.settings, NatsSettings)
        return NatsSink(bus.settings, delivery, is_fast=False)


def read(address: str, stream: str, **options: Any) -> list[Message]:
    return asyncio.run(read_nats(address, stream, **options))


def stored_ids(address: str, stream: str, **options: Any) -> list[str]:
    return [message.headers["deliveryId"] for message in read(address, stream, **options)]


def ids(events: list[Event]) -> list[str]:
    return [event.delivery_id for event in events]


def add_stream(
    address: str, name: str, subjects: list[str], login: dict[str, Any] | None = None, **config: Any
) -> None:
    async def add() -> None:
        async with await connect_nats(address, **(login or {})) as client:
            await client.jetstream(timeout=SECONDS).add_stream(
                name=name, subjects=subjects, **config
            )

    asyncio.run(add())


@pytest.fixture
def open_sink() -> Iterator[OpenSink]:
    """Give a function that opens a sink with some settings."""
    sinks: list[NatsSink] = []

    def make(*, is_fast: bool | None = None, message_id: Any = "sequence", **options: Any) -> Any:
        delivery = EventBusSettings(message_id=message_id)
        sink = NatsSink(NatsSettings(**options), delivery, is_fast=is_fast)
        sinks.append(sink)
        sink.open()
        return sink

    yield make
    for sink in sinks:
        sink.close(2)


def events_for(subject: str, count: int, **options: Any) -> list[Event]:
    router = NatsSettings(servers=("nats://h:1",), subject=subject).router()
    return make_events(router, count, **options)


def outcomes(results: Any) -> set[Outcome]:
    return {result.outcome for result in results}


def send_until_ok(sink: NatsSink, events: list[Event]) -> list[Result]:
    """Send as a sender would; return what was said on the way, the last answers included."""
    said: list[Result] = []
    left = events
    deadline = time.monotonic() + SECONDS
    while left:
        assert time.monotonic() < deadline, said[-3:]
        results = list(sink.send(left))
        said += results
        left = [e for e, r in zip(left, results, strict=True) if r.outcome is not Outcome.OK]
        if any(result.outcome is Outcome.CLIENT_LOST for result in results):
            reopen(sink)
    return said


def reopen(sink: NatsSink) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return sink.open()
        except SinkUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


# -- outages


def test_server_killed_four_times_stores_everything_once_and_in_order(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(servers=(nats_server.address,), subject=nats_stream, ack_timeout_ms=2000)

    def kill_four_times() -> None:
        for _ in range(4):
            time.sleep(0.1)
            nats_server.kill()
            nats_server.start()

    killer = threading.Thread(target=kill_four_times)
    killer.start()
    sent: list[Event] = []
    while killer.is_alive() or len(sent) < 2000:
        batch = events_for(nats_stream, 200, first=len(sent))
        send_until_ok(sink, batch)
        sent += batch
    killer.join()
    assert stored_ids(nats_server.address, nats_stream) == ids(sent)


def test_paused_server_stores_repeated_events_once(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(servers=(nats_server.address,), subject=nats_stream, ack_timeout_ms=1500)
    events = events_for(nats_stream, 300)
    send_until_ok(sink, events[:100])
    nats_server.pause()
    assert outcomes(sink.send(events[100:200])) == {Outcome.AMBIGUOUS}
    nats_server.resume()
    send_until_ok(sink, events[100:])
    assert stored_ids(nats_server.address, nats_stream) == ids(events)


def test_half_open_connection_is_noticed_within_the_ack_timeout(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink, tcp_proxy: MakeProxy
) -> None:
    proxy = tcp_proxy(nats_server.endpoint)
    address = nats_server.address_at(proxy.endpoint)
    sink = open_sink(
        servers=(address,), subject=nats_stream, ack_timeout_ms=1500, connect_timeout_ms=1500
    )
    events = events_for(nats_stream, 200)
    proxy.pause()
    began = time.monotonic()
    results = sink.send(events)
    assert time.monotonic() - began < SOON_SECONDS
    assert {(r.outcome, r.reason) for r in results} == {(Outcome.AMBIGUOUS, "timeout")}
    assert outcomes(sink.send(events)) == {Outcome.CLIENT_LOST}
    with pytest.raises(SinkUnavailableError):
        sink.open()
    proxy.heal()
    reopen(sink)
    send_until_ok(sink, events)
    assert stored_ids(nats_server.address, nats_stream) == ids(events)


def test_lost_answers_make_no_duplicates(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink, tcp_proxy: MakeProxy
) -> None:
    proxy = tcp_proxy(nats_server.endpoint)
    address = nats_server.address_at(proxy.endpoint)
    sink = open_sink(servers=(address,), subject=nats_stream, ack_timeout_ms=1500)
    events = events_for(nats_stream, 100)
    proxy.swallow(Flow.REPLIES)
    assert outcomes(sink.send(events)) == {Outcome.AMBIGUOUS}
    proxy.heal()
    answers = [r for r in send_until_ok(sink, events) if r.outcome is Outcome.OK]
    assert all(result.is_duplicate for result in answers)
    assert len(answers) == len(events)
    assert stored_ids(nats_server.address, nats_stream) == ids(events)


@pytest.mark.parametrize("is_fast", [True, False])
def test_cut_connection_leaves_events_to_be_sent_again(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink, tcp_proxy: MakeProxy, is_fast: bool
) -> None:
    proxy = tcp_proxy(nats_server.endpoint)
    address = nats_server.address_at(proxy.endpoint)
    sink = open_sink(servers=(address,), subject=nats_stream, is_fast=is_fast)
    events = events_for(nats_stream, 1500)
    proxy.cut_after(60_000, Flow.REQUESTS)
    said = outcomes(sink.send(events[:1000]))
    assert said <= {Outcome.OK, Outcome.AMBIGUOUS}
    assert Outcome.AMBIGUOUS in said
    proxy.heal()
    send_until_ok(sink, events)
    assert stored_ids(nats_server.address, nats_stream) == ids(events)


async def leader_of(client: Client, stream: str) -> str:
    """Wait until a stream has a leader: several that step down at once may leave none for long."""
    async with asyncio.timeout(SECONDS):
        while True:
            with suppress(nats.errors.Error):
                info = await client.jetstream().stream_info(stream)
                if info.cluster is not None and info.cluster.leader:
                    return info.cluster.leader
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("is_strict", [False, True])
def test_leader_steps_down_under_load(
    nats_cluster: NatsCluster, open_sink: OpenSink, is_strict: bool
) -> None:
    name = unique_name("stream")
    add_stream(nats_cluster.address, name, [name], num_replicas=3)
    sink = open_sink(
        servers=tuple(nats_cluster.address.split(",")),
        subject=name,
        stream=name,
        strict_order=is_strict,
        ack_timeout_ms=2000,
    )

    async def step_down() -> None:
        async with await connect_nats(nats_cluster.address) as client:
            for _ in range(3):
                # Nobody answers while the leader is being chosen.
                with suppress(nats.errors.TimeoutError):
                    await client.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{name}", timeout=2)
                await leader_of(client, name)

    stepping = threading.Thread(target=asyncio.run, args=(step_down(),))
    stepping.start()
    sent: list[Event] = []
    while stepping.is_alive():
        batch = events_for(name, 20, first=len(sent))
        send_until_ok(sink, batch)
        sent += batch
    stepping.join()
    found = stored_ids(nats_cluster.address, name)
    assert sorted(found) == sorted(ids(sent))
    if is_strict:
        assert found == ids(sent)


# -- refusals


def test_missing_stream_is_a_bad_target_until_it_is_there(
    nats_server: Nats, open_sink: OpenSink
) -> None:
    name = unique_name("stream")
    sink = open_sink(servers=(nats_server.address,), subject=name)
    events = events_for(name, 10)
    results = sink.send(events)
    assert {(r.outcome, r.reason) for r in results} == {(Outcome.BAD_DESTINATION, "no_destination")}
    add_stream(nats_server.address, name, [name])
    assert outcomes(sink.send(events)) == {Outcome.OK}


def test_stream_that_vanishes_may_be_changing_its_leader_once(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(servers=(nats_server.address,), subject=nats_stream)
    events = events_for(nats_stream, 3)
    assert outcomes(sink.send(events)) == {Outcome.OK}

    async def delete() -> None:
        async with await connect_nats(nats_server.address) as client:
            await client.jetstream().delete_stream(nats_stream)

    asyncio.run(delete())
    assert outcomes(sink.send(events)) == {Outcome.TRANSIENT}
    assert outcomes(sink.send(events)) == {Outcome.BAD_DESTINATION}


@pytest.mark.parametrize("is_fast", [True, False])
def test_event_one_byte_over_the_limit_is_refused_alone(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink, is_fast: bool
) -> None:
    sink = open_sink(
        servers=(nats_server.address,), subject=nats_stream, is_fast=is_fast, max_pending=2
    )
    events = events_for(nats_stream, 4)
    headers = len(sink._headers.text(events[1]))
    events[1] = sized(events[1], 1_048_576 - headers)
    events[2] = sized(events[2], 1_048_576 - headers + 1)
    results = sink.send(events)
    assert [r.outcome.value for r in results] == ["ok", "ok", "bad_record", "ok"]
    assert results[2].reason == "too_large"
    assert stored_ids(nats_server.address, nats_stream) == ids([events[0], events[1], events[3]])
    # The connection is still the first one.
    assert outcomes(sink.send(events_for(nats_stream, 1, first=9))) == {Outcome.OK}


def sized(event: Event, size: int) -> Event:
    """Return an event with an envelope of exactly this size."""
    spare = size - len(enlarged(event, size).data)
    exact = enlarged(event, size + spare)
    assert len(exact.data) == size
    return exact


def test_limits_of_the_stream_are_told_apart(nats_server: Nats, open_sink: OpenSink) -> None:
    name = unique_name("stream")
    subjects = [f"{name}.small", f"{name}.full"]
    add_stream(nats_server.address, f"{name}-small", subjects[:1], max_msg_size=2000)
    add_stream(nats_server.address, f"{name}-full", subjects[1:], max_msgs=1, discard="new")
    sink = open_sink(servers=(nats_server.address,), subject=subjects[0])
    large = enlarged(events_for(subjects[0], 1)[0], 3000)
    full = events_for(subjects[1], 2, first=10)
    results = sink.send([large, *full])
    assert [(r.outcome.value, r.reason) for r in results] == [
        ("bad_record", "too_large"),
        ("ok", ""),
        ("bad_target", "stream_full"),
    ]
    assert "10077" in results[2].detail


def test_other_stream_than_expected_is_a_bad_target(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(servers=(nats_server.address,), subject=nats_stream, stream="another")
    results = sink.send(events_for(nats_stream, 2))
    assert {(r.outcome, r.reason) for r in results} == {(Outcome.BAD_DESTINATION, "wrong_stream")}


def test_forbidden_subject_is_a_bad_target_at_once_and_others_arrive(open_sink: OpenSink) -> None:
    users = {"admin": "a-secret", "writer": "w-secret"}
    rules = {"writer": {"publish": "s.allowed.>", "subscribe": "_INBOX.>"}}
    with Nats(users=users, permissions=rules) as server:
        login = {"user": "admin", "password": "a-secret"}
        add_stream(server.address, "s", ["s.>"], login)
        sink = open_sink(
            servers=(server.address,),
            subject="s.x",
            user="writer",
            password=Secret("w-secret"),
            ack_timeout_ms=30_000,
        )
        events = [*events_for("s.allowed.a", 2), *events_for("s.Denied", 2, first=2)]
        results = sink.send(events)
        assert [r.outcome.value for r in results] == ["ok", "ok", "bad_target", "bad_target"]
        assert results[2].reason == "not_authorized"
        assert stored_ids(server.address, "s", **login) == ids(events[:2])
        sink.close(1)


def test_forbidden_inbox_refuses_to_open() -> None:
    rules = {"writer": {"publish": ">", "subscribe": {"deny": "_INBOX.>"}}}
    with Nats(users={"writer": "w-secret"}, permissions=rules) as server:
        settings = NatsSettings(
            servers=(server.address,), subject="s", user="writer", password=Secret("w-secret")
        )
        sink = NatsSink(settings, EventBusSettings())
        with pytest.raises(SinkError, match="inbox"):
            sink.open()
        sink.close(1)


def test_wrong_password_parks_the_bus_and_is_not_shown(open_sink: OpenSink) -> None:
    with Nats(users={"writer": "w-secret"}) as server:
        options = {"servers": (server.address,), "subject": "s", "user": "writer"}
        wrong = NatsSettings(**options, password=Secret("guessed-it"))
        sink = NatsSink(wrong, EventBusSettings())
        with pytest.raises(SinkError) as caught:
            sink.open()
        sink.close(1)
        assert not caught.value.retryable
        assert "guessed-it" not in f"{caught.value!r} {wrong!r}"
        open_sink(**options, password=Secret("w-secret")).close(1)


def test_unreachable_server_is_said_soon(closed_port: int) -> None:
    settings = NatsSettings(servers=(f"nats://127.0.0.1:{closed_port}",), subject="s")
    sink = NatsSink(settings, EventBusSettings())
    began = time.monotonic()
    with pytest.raises(SinkUnavailableError, match="not reachable"):
        sink.open()
    assert time.monotonic() - began < SOON_SECONDS
    assert outcomes(sink.send(events_for("s", 2))) == {Outcome.CLIENT_LOST}
    sink.close(1)


# -- what arrives


def test_table_of_routes_headers_and_templates_arrives_exactly(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink
) -> None:
    settings = {
        "servers": (nats_server.address,),
        "subject_template": f"{nats_stream}.{{{{exchange}}}}.{{{{symbol}}}}",
        "subject_routing": {"quote": f"{nats_stream}.quotes"},
        "static_headers": {"env": "test", "team": "data lake"},
        "meta_headers_prefix": "m-",
        "stream": nats_stream,
    }
    sink = open_sink(**settings)
    symbols = ("XBTUSD", ".BXBT", "a b", "x*y>", "")
    events = make_events(NatsSettings(**settings).router(), 5, symbols=symbols)
    assert outcomes(sink.send(events)) == {Outcome.OK}
    messages = read(nats_server.address, nats_stream)
    tokens = ["XBTUSD", "_BXBT", "a_b", "x_y_", "_"]
    assert [m.key for m in messages] == [f"{nats_stream}.bitmex.{token}" for token in tokens]
    assert messages[0].headers == {
        "m-request_id": "r-1",
        "env": "test",
        "team": "data lake",
        "payloadCase": "trade",
        "dataType": "trade",
        "Nats-Expected-Stream": nats_stream,
        "eventId": events[0].event_id,
        "deliveryId": events[0].delivery_id,
        "Nats-Msg-Id": events[0].delivery_id,
    }
    assert [m.value for m in messages] == [event.data for event in events]
    (record,) = Decoder().decode([messages[1].value])
    assert isinstance(record, Trade)
    assert record.symbol == ".BXBT"


@pytest.mark.parametrize("is_fast", [True, False])
@pytest.mark.parametrize(("kind", "expected"), [("content", "event_id"), ("off", None)])
def test_message_id_follows_the_settings(
    nats_server: Nats,
    nats_stream: str,
    open_sink: OpenSink,
    kind: str,
    expected: str | None,
    is_fast: bool,
) -> None:
    sink = open_sink(
        servers=(nats_server.address,), subject=nats_stream, message_id=kind, is_fast=is_fast
    )
    (event,) = events_for(nats_stream, 1)
    sink.send([event])
    (message,) = read(nats_server.address, nats_stream)
    wanted = None if expected is None else getattr(event, expected)
    assert message.headers.get("Nats-Msg-Id") == wanted


def test_id_that_no_header_can_hold_is_escaped_and_stays_distinct(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(servers=(nats_server.address,), subject=nats_stream, message_id="content")
    events = events_for(nats_stream, 2, symbols=("ü", "a\r\nb"))
    assert outcomes(sink.send(events)) == {Outcome.OK}
    found = [m.headers["eventId"] for m in read(nats_server.address, nats_stream)]
    assert found[0].startswith("bitmex:%C3%BC:")
    assert found[1].startswith("bitmex:a%0D%0Ab:")


def test_more_events_than_the_window_go_in_turns(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(
        servers=(nats_server.address,), subject=nats_stream, max_pending=64, max_batch_size=10
    )
    events = events_for(nats_stream, 500)
    assert outcomes(sink.send(events)) == {Outcome.OK}
    assert stored_ids(nats_server.address, nats_stream) == ids(events)


def test_core_mode_reaches_subscribers_without_a_stream(
    nats_server: Nats, open_sink: OpenSink
) -> None:
    subject = unique_name("core")
    sink = open_sink(servers=(nats_server.address,), subject=subject, mode="core")
    events = events_for(subject, 50)

    async def listen() -> list[str]:
        async with await connect_nats(nats_server.address) as client:
            subscription = await client.subscribe(subject)
            await client.flush()
            sent = await asyncio.to_thread(sink.send, events)
            assert outcomes(sent) == {Outcome.OK}
            messages = [await subscription.next_msg(30) for _ in events]
            return [(message.headers or {})["deliveryId"] for message in messages]

    assert asyncio.run(listen()) == ids(events)


def test_strict_order_starts_again_after_another_publisher(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink
) -> None:
    options = {
        "servers": (nats_server.address,),
        "subject": nats_stream,
        "stream": nats_stream,
        "strict_order": True,
    }
    sink, other = open_sink(**options), open_sink(**options)
    events = events_for(nats_stream, 30)
    assert outcomes(sink.send(events[:10])) == {Outcome.OK}
    assert outcomes(other.send(events[10:20])) == {Outcome.OK}
    results = sink.send(events[20:])
    assert {(r.outcome, r.reason) for r in results} == {(Outcome.TRANSIENT, "out_of_order")}
    assert outcomes(sink.send(events[20:])) == {Outcome.OK}
    messages = read(nats_server.address, nats_stream)
    assert [m.headers["deliveryId"] for m in messages] == ids(events)
    assert messages[1].headers["Nats-Expected-Last-Msg-Id"] == events[0].delivery_id


# -- streams and logins


def test_missing_stream_is_created_as_configured(nats_server: Nats, open_sink: OpenSink) -> None:
    name = unique_name("stream")
    options = {
        "servers": (nats_server.address,),
        "subject_template": f"{name}.{{{{exchange}}}}.x-{{{{symbol}}}}",
        "subject_routing": {"error": f"{name}.errors"},
        "stream": name,
        "create_stream": True,
        "stream_storage": "memory",
        "stream_max_bytes": 1_000_000,
        "stream_max_age_ms": 60_000,
        "stream_discard": "new",
        "stream_duplicate_window_ms": 30_000,
    }
    sink = open_sink(**options)
    events = make_events(NatsSettings(**options).router(), 3)
    assert outcomes(sink.send(events)) == {Outcome.OK}
    config = stream_config(nats_server.address, name)
    assert config.subjects == [f"{name}.*.*", f"{name}.errors"]
    assert (config.storage, config.max_bytes, config.max_age) == ("memory", 1_000_000, 60)
    assert (config.discard, config.duplicate_window) == ("new", 30)


def test_existing_stream_is_never_changed(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink
) -> None:
    before = stream_config(nats_server.address, nats_stream)
    open_sink(
        servers=(nats_server.address,),
        subject=f"{nats_stream}.x",
        stream=nats_stream,
        create_stream=True,
        stream_max_bytes=5_000_000,
    )
    assert stream_config(nats_server.address, nats_stream) == before


def test_overlapping_stream_is_reported(
    nats_server: Nats, nats_stream: str, open_sink: OpenSink
) -> None:
    with pytest.raises(SinkError, match="10065"):
        open_sink(
            servers=(nats_server.address,),
            subject=f"{nats_stream}.x",
            stream=unique_name("other"),
            create_stream=True,
        )


def stream_config(address: str, name: str) -> Any:
    async def ask() -> Any:
        async with await connect_nats(address) as client:
            return (await client.jetstream().stream_info(name)).config

    return asyncio.run(ask())


def test_token_and_nkey_open_the_server(open_sink: OpenSink, tmp_path: Path) -> None:
    key = make_nkey()
    seed = tmp_path / "user.nk"
    seed.write_text(key.seed)
    with Nats(token="t-secret") as server:
        open_sink(servers=(server.address,), subject="s", token=Secret("t-secret")).close(1)
        with pytest.raises(SinkError):
            open_sink(servers=(server.address,), subject="s")
    with Nats(nkeys=[key.public]) as server:
        open_sink(servers=(server.address,), subject="s", nkey_seed=seed).close(1)


def test_tls_server_takes_clients_that_trust_its_authority(
    certificates: Certificates, open_sink: OpenSink
) -> None:
    login = {"tls": client_context(certificates)}
    with Nats(certificates=certificates) as server:
        add_stream(server.address, "s", ["s"], login)
        sink = open_sink(servers=(server.address,), subject="s", tls_ca=certificates.ca)
        assert outcomes(sink.send(events_for("s", 10))) == {Outcome.OK}
        sink.close(1)
        with pytest.raises(SinkError, match="certificate"):
            open_sink(servers=(server.address,), subject="s")


def client_context(certificates: Certificates) -> Any:
    return ssl.create_default_context(cafile=str(certificates.ca))


# nats-py gives aiohttp its timeout in the old way.
@pytest.mark.filterwarnings("ignore:parameter 'timeout' of type 'float':DeprecationWarning")
def test_events_are_acknowledged_through_a_websocket(open_sink: OpenSink) -> None:
    port = free_port()
    websocket = {"host": "127.0.0.1", "port": port, "no_tls": True}
    with Nats(settings={"websocket": websocket}) as server:
        add_stream(server.address, "s", ["s"])
        sink = open_sink(servers=(f"ws://127.0.0.1:{port}",), subject="s")
        events = events_for("s", 300)
        assert outcomes(sink.send(events)) == {Outcome.OK}
        assert stored_ids(server.address, "s") == ids(events)
        sink.close(1)


def test_idle_connection_answers_the_pings_of_its_server(open_sink: OpenSink) -> None:
    with Nats(settings={"ping_interval": "50ms", "ping_max": 2}) as server:
        add_stream(server.address, "s", ["s"])
        sink = open_sink(servers=(server.address,), subject="s")
        began = time.monotonic()
        while time.monotonic() - began < 0.5:
            sink.idle(0.0)
            time.sleep(0.02)
        assert outcomes(sink.send(events_for("s", 1))) == {Outcome.OK}
        sink.close(1)
