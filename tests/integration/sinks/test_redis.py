"""The Redis sink against real servers: alone, failing, and as a cluster."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from tardis_machine.bronze.decode import Decoder
from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.buses.results import Outcome
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.model.records import Trade
from tardis_machine.model.settings import Secret
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.redis.sink import RedisSink
from tests.contract.sinks import (
    BusUnderTest,
    Received,
    ServerSinkContract,
    ServerUnderTest,
    enlarged,
    make_events,
)
from tests.servers.plugin import unique_name
from tests.servers.readers import Received as Entry
from tests.servers.readers import read_redis, read_redis_cluster
from tests.servers.redis import Redis, RedisCluster
from tests.servers.tcp_proxy import Flow, MakeProxy, TcpProxy
from tests.servers.tls import Certificates

pytestmark = pytest.mark.broker

LARGE_BYTES = 64_000_000
"""For batches that hold events of unusual size."""

OpenSink = Callable[..., RedisSink]


class RedisUnderTest(ServerUnderTest):
    """A stream of a server behind a proxy."""

    too_large_bytes = 100_000

    def __init__(self, server: Redis, proxy: TcpProxy, stream: str) -> None:
        url = Secret(server.address_at(proxy.endpoint))
        super().__init__(proxy, RedisSettings(url=url, stream=stream, max_record_bytes=99_999))
        self._server = server
        self._stream = stream

    def received(self) -> list[Received]:
        return [
            Received(
                self._stream, entry.headers["eventId"], entry.headers["deliveryId"], entry.value
            )
            for entry in read(self._server.address, self._stream)
        ]


class TestRedis(ServerSinkContract):
    @pytest.fixture
    def bus(self, redis_server: Redis, tcp_proxy: MakeProxy, redis_stream: str) -> BusUnderTest:
        return RedisUnderTest(redis_server, tcp_proxy(redis_server.endpoint), redis_stream)


def read(address: str, stream: str, **options: Any) -> list[Entry]:
    return asyncio.run(read_redis(address, stream, **options))


def stored_ids(address: str, stream: str, **options: Any) -> list[str]:
    return [entry.headers["deliveryId"] for entry in read(address, stream, **options)]


def ids(events: list[Event]) -> list[str]:
    return [event.delivery_id for event in events]


def events_for(stream: str, count: int, **options: Any) -> list[Event]:
    first = options.pop("first", 0)
    symbols = options.pop("symbols", ("XBTUSD",))
    settings = RedisSettings(host="h", stream=stream, **options)
    return make_events(settings.router(), count, first=first, symbols=symbols)


@pytest.fixture
def open_sink() -> Iterator[OpenSink]:
    """Give a function that opens a sink for a URL."""
    sinks: list[RedisSink] = []

    def make(url: str, stream: str, **options: Any) -> RedisSink:
        settings = RedisSettings(url=Secret(url), stream=stream, **options)
        sink = RedisSink(settings, EventBusSettings(producer_id="tester"))
        sinks.append(sink)
        sink.open()
        return sink

    yield make
    for sink in sinks:
        sink.close(1)


def outcomes(sink: RedisSink, events: list[Event]) -> set[Outcome]:
    return {result.outcome for result in sink.send(events)}


def said(sink: RedisSink, events: list[Event]) -> set[tuple[Outcome, str]]:
    return {(result.outcome, result.reason) for result in sink.send(events)}


def send_until_ok(sink: RedisSink, events: list[Event]) -> None:
    """Send as a sender would."""
    deadline = time.monotonic() + 240
    while (found := said(sink, events)) != {(Outcome.OK, "")}:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


# -- outages


def test_killed_server_refuses_until_it_is_back(
    redis_server: Redis, redis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(redis_server.address, redis_stream)
    events = events_for(redis_stream, 400)
    for start in range(0, 400, 100):
        redis_server.kill()
        batch = events[start : start + 100]
        assert said(sink, batch) == {(Outcome.TRANSIENT, "unreachable")}
        redis_server.start()
        send_until_ok(sink, batch)
    assert stored_ids(redis_server.address, redis_stream) == ids(events)


def test_silent_server_is_ambiguous_and_its_entries_keep_their_ids(
    redis_server: Redis, redis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(redis_server.address, redis_stream, request_timeout_ms=1500)
    events = events_for(redis_stream, 20)
    send_until_ok(sink, events[:10])
    redis_server.pause()
    started = time.monotonic()
    assert said(sink, events[10:]) == {(Outcome.AMBIGUOUS, "timeout")}
    assert time.monotonic() - started < 5
    redis_server.resume()
    send_until_ok(sink, events[10:])
    stored = stored_ids(redis_server.address, redis_stream)
    # The server executed what it had received as soon as it went on.
    assert stored == ids(events) + ids(events[10:])


def test_half_open_connection_is_noticed_within_the_timeout(
    redis_server: Redis, redis_stream: str, tcp_proxy: MakeProxy, open_sink: OpenSink
) -> None:
    proxy = tcp_proxy(redis_server.endpoint)
    url = redis_server.address_at(proxy.endpoint)
    sink = open_sink(url, redis_stream, request_timeout_ms=1500)
    events = events_for(redis_stream, 10)
    proxy.pause()
    started = time.monotonic()
    assert outcomes(sink, events) == {Outcome.AMBIGUOUS}
    assert time.monotonic() - started < 5
    proxy.heal()
    proxy.cut()
    send_until_ok(sink, events)
    assert set(stored_ids(redis_server.address, redis_stream)) == set(ids(events))


def test_lost_reply_makes_a_duplicate_with_the_same_id(
    redis_server: Redis, redis_stream: str, tcp_proxy: MakeProxy, open_sink: OpenSink
) -> None:
    proxy = tcp_proxy(redis_server.endpoint)
    url = redis_server.address_at(proxy.endpoint)
    sink = open_sink(url, redis_stream, request_timeout_ms=1500)
    events = events_for(redis_stream, 5)
    proxy.swallow(Flow.REPLIES)
    assert said(sink, events) == {(Outcome.AMBIGUOUS, "timeout")}
    proxy.heal()
    send_until_ok(sink, events)
    assert stored_ids(redis_server.address, redis_stream) == ids(events) * 2


def test_connection_cut_between_batches_is_replaced_unnoticed(
    redis_server: Redis, redis_stream: str, tcp_proxy: MakeProxy, open_sink: OpenSink
) -> None:
    proxy = tcp_proxy(redis_server.endpoint)
    sink = open_sink(redis_server.address_at(proxy.endpoint), redis_stream)
    events = events_for(redis_stream, 30)
    for start in range(0, 30, 10):
        assert outcomes(sink, events[start : start + 10]) == {Outcome.OK}
        proxy.cut()
        time.sleep(0.02)
    assert stored_ids(redis_server.address, redis_stream) == ids(events)


def test_absent_server_makes_open_fail(closed_port: int) -> None:
    settings = RedisSettings(host="127.0.0.1", port=closed_port, stream="s")
    sink = RedisSink(settings, EventBusSettings())
    with pytest.raises(SinkUnavailableError, match=rf"127\.0\.0\.1:{closed_port}"):
        sink.open()


# -- a server that refuses


def test_memory_full_amid_a_batch_stores_nothing_of_it_and_all_of_it_later(
    open_sink: OpenSink,
) -> None:
    with Redis(max_memory_bytes=4_000_000) as server, server.client() as client:
        sink = open_sink(server.address, "s", max_batch_bytes=LARGE_BYTES)
        events = [enlarged(event, 100_000) for event in events_for("s", 60)]
        results = sink.send(events)
        assert {(r.outcome, r.reason) for r in results} == {(Outcome.TRANSIENT, "out_of_memory")}
        assert all(result.retry_after_seconds >= 1 for result in results)
        assert stored_ids(server.address, "s") == []
        client.config_set("maxmemory", 0)
        send_until_ok(sink, events)
        assert stored_ids(server.address, "s") == ids(events)


def test_memory_above_high_water_pauses_before_it_is_full(open_sink: OpenSink) -> None:
    with Redis() as server, server.client() as client:
        client.config_set("maxmemory", int(client.info("memory")["used_memory"] * 1.5))
        sink = open_sink(server.address, "s", memory_high_water=0.5)
        events = events_for("s", 5)
        assert said(sink, events) == {(Outcome.TRANSIENT, "memory_high_water")}
        client.config_set("maxmemory", 0)
        send_until_ok(sink, events)
        assert stored_ids(server.address, "s") == ids(events)


def test_replica_is_left_alone_until_it_is_a_master(
    redis_server: Redis, redis_stream: str, open_sink: OpenSink
) -> None:
    with Redis() as server:
        sink = open_sink(server.address, redis_stream)
        events = events_for(redis_stream, 10)
        with server.client() as client:
            client.replicaof("127.0.0.1", redis_server.port)
            assert outcomes(sink, events) == {Outcome.TRANSIENT}
            client.replicaof("NO", "ONE")
        send_until_ok(sink, events)
        assert stored_ids(server.address, redis_stream) == ids(events)


def test_key_of_another_type_parks_its_stream_only(
    redis_server: Redis, redis_stream: str, open_sink: OpenSink
) -> None:
    other = unique_name("text")
    with redis_server.client() as client:
        client.set(other, "text")
    sink = open_sink(redis_server.address, redis_stream)
    good, bad = events_for(redis_stream, 5), events_for(other, 5, first=5)
    results = sink.send([*good, *bad])
    assert {result.outcome for result in results[:5]} == {Outcome.OK}
    assert {(r.outcome, r.reason) for r in results[5:]} == {
        (Outcome.BAD_DESTINATION, "not_a_stream")
    }
    with redis_server.client() as client:
        client.delete(other)
    send_until_ok(sink, bad)
    assert stored_ids(redis_server.address, other) == ids(bad)


def test_missing_rights_park_until_they_are_given(open_sink: OpenSink) -> None:
    with Redis(password="main-secret", acl={"writer": ">writer-secret ~* +@all -xadd"}) as server:
        sink = open_sink(server.address_as("writer", "writer-secret"), "s")
        events = events_for("s", 5)
        assert said(sink, events) == {(Outcome.BAD_DESTINATION, "not_authorized")}
        with server.client() as client:
            client.execute_command("ACL SETUSER writer +xadd")
        send_until_ok(sink, events)
        assert stored_ids(server.address, "s") == ids(events)


def test_wrong_password_is_refused_without_showing_it() -> None:
    with Redis(password="main-secret") as server:
        url = Secret(server.address_as("default", "not-this-one"))
        settings = RedisSettings(url=url, stream="s")
        sink = RedisSink(settings, EventBusSettings())
        with pytest.raises(SinkError) as caught:
            sink.open()
        assert not isinstance(caught.value, SinkUnavailableError)
        assert "not-this-one" not in f"{caught.value!r} {settings!r}"


def test_password_changed_mid_run_parks_until_it_is_changed_back(open_sink: OpenSink) -> None:
    with Redis(password="main-secret") as server:
        sink = open_sink(server.address, "s")
        events = events_for("s", 10)
        send_until_ok(sink, events[:5])
        with server.client() as client:
            client.config_set("requirepass", "another")
            client.execute_command("CLIENT KILL TYPE normal SKIPME yes")
            assert said(sink, events[5:]) == {(Outcome.BAD_DESTINATION, "not_authenticated")}
            client.config_set("requirepass", "main-secret")
        send_until_ok(sink, events[5:])
        assert stored_ids(server.address, "s") == ids(events)


def test_argument_too_long_for_the_server_is_found_before_sending(open_sink: OpenSink) -> None:
    with Redis(options={"proto-max-bulk-len": "1mb"}) as server:
        sink = open_sink(server.address, "s")
        events = events_for("s", 5)
        events[2] = enlarged(events[2], 1_100_000)
        results = [result.outcome for result in sink.send(events)]
        assert results == [Outcome.OK, Outcome.OK, Outcome.BAD_RECORD, Outcome.OK, Outcome.OK]


def test_argument_too_long_for_a_server_that_hides_its_limit_is_found(open_sink: OpenSink) -> None:
    acl = {"writer": ">writer-secret ~* +@all -config"}
    with Redis(password="p", acl=acl, options={"proto-max-bulk-len": "1mb"}) as server:
        url = server.address_as("writer", "writer-secret")
        sink = open_sink(url, "s", max_batch_bytes=LARGE_BYTES)
        events = events_for("s", 5)
        events[2] = enlarged(events[2], 1_100_000)
        results = [result.outcome for result in sink.send(events)]
        assert results[2] in (Outcome.BAD_RECORD, Outcome.AMBIGUOUS)
        assert Outcome.OK not in results
        kept = [event for event in events if event is not events[2]]
        send_until_ok(sink, kept)
        assert stored_ids(server.address, "s") == ids(kept)


def test_too_few_replicas_make_the_outcome_unknown(open_sink: OpenSink) -> None:
    with Redis(options={"repl-diskless-sync-delay": "0"}) as server, Redis() as replica:
        sink = open_sink(server.address, "s", wait_replicas=1, wait_timeout_ms=50)
        events = events_for("s", 3)
        assert said(sink, events) == {(Outcome.AMBIGUOUS, "too_few_replicas")}
        with replica.client() as client:
            client.replicaof("127.0.0.1", server.port)
        send_until_ok(sink, events)
        assert stored_ids(server.address, "s")[-3:] == ids(events)


# -- what consumers see


def test_streams_fields_and_bytes_arrive_as_configured(
    redis_server: Redis, open_sink: OpenSink
) -> None:
    base = unique_name("base")
    options: dict[str, Any] = {
        "key_template": base + ":{{{symbol}}}",
        "static_headers": {"env": "test"},
        "meta_headers_prefix": "",
        "data_field": "envelope",
    }
    sink = open_sink(redis_server.address, base, **options)
    events = events_for(base, 4, symbols=("XBTUSD", "ETHUSD"), **options)
    send_until_ok(sink, events)
    with redis_server.client() as client:
        assert client.xlen(base + ":{ETHUSD}") == 2
        (_, fields), _ = client.xrange(base + ":{XBTUSD}")
    assert fields[b"envelope"] == events[0].data
    headers = {k.decode(): v.decode() for k, v in fields.items() if k != b"envelope"}
    assert headers == {
        "payloadCase": "trade",
        "dataType": "trade",
        "eventId": events[0].event_id,
        "deliveryId": events[0].delivery_id,
        "env": "test",
        "request_id": "r-1",
    }
    (record,) = Decoder().decode([fields[b"envelope"]])
    assert isinstance(record, Trade)


def test_streams_are_trimmed_by_length_and_by_age(
    redis_server: Redis, redis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(redis_server.address, redis_stream, max_length=7, trim_exact=True)
    events = events_for(redis_stream, 20)
    send_until_ok(sink, events[:10])
    send_until_ok(sink, events[10:])
    assert stored_ids(redis_server.address, redis_stream) == ids(events[-7:])
    with redis_server.client() as client:
        client.delete(redis_stream)
        client.xadd(redis_stream, {"data": "old", "deliveryId": "old"}, id="1000-0")
    aged = open_sink(redis_server.address, redis_stream, max_age_ms=60_000, trim_exact=True)
    send_until_ok(aged, events[:3])
    assert stored_ids(redis_server.address, redis_stream) == ids(events[:3])


def test_own_entry_ids_make_a_repeated_batch_harmless(
    redis_server: Redis, redis_stream: str, tcp_proxy: MakeProxy, open_sink: OpenSink
) -> None:
    proxy = tcp_proxy(redis_server.endpoint)
    url = redis_server.address_at(proxy.endpoint)
    options = {"entry_id": "monotonic", "request_timeout_ms": 1500}
    sink = open_sink(url, redis_stream, **options)
    events = events_for(redis_stream, 20)
    send_until_ok(sink, events[:10])
    proxy.swallow(Flow.REPLIES)
    assert outcomes(sink, events[10:]) == {Outcome.AMBIGUOUS}
    proxy.heal()
    results = sink.send(events[10:])
    assert {(r.outcome, r.is_duplicate) for r in results} == {(Outcome.OK, True)}
    assert stored_ids(redis_server.address, redis_stream) == ids(events)


def test_own_entry_ids_yield_to_another_writer(
    redis_server: Redis, redis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(redis_server.address, redis_stream, entry_id="monotonic")
    events = events_for(redis_stream, 4)
    send_until_ok(sink, events[:2])
    with redis_server.client() as client:
        client.xadd(redis_stream, {"data": "x", "deliveryId": "other"}, id="99999999999999-5")
    assert said(sink, events[2:]) == {(Outcome.TRANSIENT, "entry_id_behind")}
    send_until_ok(sink, events[2:])
    wanted = [*ids(events[:2]), "other", *ids(events[2:])]
    assert stored_ids(redis_server.address, redis_stream) == wanted


def test_single_commands_are_accounted_for_one_by_one(open_sink: OpenSink) -> None:
    with Redis(max_memory_bytes=4_000_000) as server:
        sink = open_sink(server.address, "s", transaction=False)
        events = [enlarged(event, 100_000) for event in events_for("s", 60)]
        results = [result.outcome for result in sink.send(events)]
        assert set(results) == {Outcome.OK, Outcome.TRANSIENT}
        stored = [e for e, result in zip(events, results, strict=True) if result is Outcome.OK]
        assert stored_ids(server.address, "s") == ids(stored)


def test_encrypted_connection_needs_the_authority(
    certificates: Certificates, open_sink: OpenSink
) -> None:
    with Redis(certificates=certificates) as server:
        sink = open_sink(server.address, "s", tls_ca=certificates.ca)
        events = events_for("s", 5)
        send_until_ok(sink, events)
        trusting = {"ssl_ca_certs": str(certificates.ca)}
        assert stored_ids(server.address, "s", **trusting) == ids(events)
        with pytest.raises(SinkUnavailableError):
            open_sink(server.address, "s")


# -- several servers


def events_of_each(streams: list[str], first: int = 0) -> list[Event]:
    """Return three events for each stream."""
    starts = range(first, first + 3 * len(streams), 3)
    pairs = zip(streams, starts, strict=True)
    return [event for stream, start in pairs for event in events_for(stream, 3, first=start)]


def test_dead_cluster_node_fails_its_own_streams_only(
    redis_cluster: RedisCluster, open_sink: OpenSink
) -> None:
    sink = open_sink(redis_cluster.address, "s", request_timeout_ms=15000)
    streams = [unique_name("s") for _ in range(30)]
    events = events_of_each(streams)
    send_until_ok(sink, events)
    victim = redis_cluster.nodes[2]
    victim.kill()
    more = events_of_each(streams, first=900)
    results = sink.send(more)
    by_outcome = {result.outcome for result in results}
    assert Outcome.OK in by_outcome
    assert by_outcome - {Outcome.OK} <= {Outcome.TRANSIENT, Outcome.AMBIGUOUS}
    assert by_outcome != {Outcome.OK}
    redis_cluster.heal()
    again = [e for e, r in zip(more, results, strict=True) if r.outcome is not Outcome.OK]
    send_until_ok(sink, again)
    for n, stream in enumerate(streams):
        entries = asyncio.run(read_redis_cluster(redis_cluster.address, stream))
        stored = dict.fromkeys(entry.headers["eventId"] for entry in entries)
        wanted = events[3 * n : 3 * n + 3] + more[3 * n : 3 * n + 3]
        assert list(stored) == [event.event_id for event in wanted]


def test_moved_slot_is_followed(redis_cluster: RedisCluster, open_sink: OpenSink) -> None:
    sink = open_sink(redis_cluster.address, "s", cluster="auto")
    stream = unique_name("s")
    events = events_for(stream, 6)
    send_until_ok(sink, events[:3])
    with redis.RedisCluster.from_url(redis_cluster.address) as client:
        slot = client.keyslot(stream)
        owner = client.get_node_from_key(stream).port
    source = next(node for node in redis_cluster.nodes if node.port == owner)
    target = next(node for node in redis_cluster.nodes if node.port != owner)
    _move_slot(redis_cluster, slot, source, target, stream)
    try:
        send_until_ok(sink, events[3:])
        entries = asyncio.run(read_redis_cluster(redis_cluster.address, stream))
        assert [entry.headers["deliveryId"] for entry in entries] == ids(events)
    finally:
        _move_slot(redis_cluster, slot, target, source, stream)


def _move_slot(cluster: RedisCluster, slot: int, source: Redis, target: Redis, stream: str) -> None:
    with source.client() as old, target.client() as new:
        names = {node.port: _node_id(node) for node in (source, target)}
        new.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", names[source.port])
        old.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", names[target.port])
        old.execute_command("MIGRATE", "127.0.0.1", target.port, stream, 0, 5000)
    for node in cluster.nodes:
        with node.client() as client:
            client.execute_command("CLUSTER SETSLOT", slot, "NODE", names[target.port])


def _node_id(node: Redis) -> str:
    with node.client() as client:
        return str(client.execute_command("CLUSTER MYID").decode())


def test_plain_client_of_a_cluster_switches_to_slots(
    redis_cluster: RedisCluster, open_sink: OpenSink
) -> None:
    sink = open_sink(redis_cluster.address, "s")
    streams = [unique_name("s") for _ in range(9)]
    events = [events_for(stream, 1, first=n)[0] for n, stream in enumerate(streams)]
    send_until_ok(sink, events)
    found = [asyncio.run(read_redis_cluster(redis_cluster.address, stream)) for stream in streams]
    assert [len(entries) for entries in found] == [1] * 9
