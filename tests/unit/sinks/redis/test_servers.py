"""What the Redis sink makes of the server it finds: its version, and who the master is."""

from typing import Any

import pytest

from tardis_machine.buses.redis.settings import RedisSettings
from tardis_machine.buses.results import Outcome
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.redis.sink import RedisSink
from tests.contract.sinks import make_events
from tests.unit.sinks.redis.redis_stand_in import RedisStandIn, Transactions, array, bulk


def sink_for(server: RedisStandIn, **options: Any) -> RedisSink:
    settings = RedisSettings(host="127.0.0.1", port=server.port, stream="s", **options)
    return RedisSink(settings, EventBusSettings(producer_id="tester"))


def events(count: int) -> list[Event]:
    return make_events(RedisSettings(host="h", stream="s").router(), count)


def send(sink: RedisSink, sent: list[Event]) -> set[Outcome]:
    sink.open()
    try:
        return {result.outcome for result in sink.send(sent)}
    finally:
        sink.close(1)


def test_server_that_knows_ids_is_told_them_and_to_keep_enough() -> None:
    with RedisStandIn(Transactions("8.6.1")) as server:
        sent = events(2)
        assert send(sink_for(server), sent) == {Outcome.OK}
    added = [words[2:6] for words in server.named("XADD")]
    assert added == [["IDMP", "tester", event.delivery_id, "*"] for event in sent]
    (configured,) = server.named("XCFGSET")
    assert configured == ["XCFGSET", "s", "IDMP-DURATION", "600", "IDMP-MAXSIZE", "10000"]


@pytest.mark.parametrize(
    "server", [Transactions("8.4.9"), Transactions("8.8.0", server_name="valkey")]
)
def test_server_that_does_not_know_ids_is_not_told_them(server: Transactions) -> None:
    with RedisStandIn(server) as stand_in:
        assert send(sink_for(stand_in), events(1)) == {Outcome.OK}
    assert stand_in.named("XADD")[0][2] == "*"
    assert stand_in.named("XCFGSET") == []


def test_ids_can_be_switched_off() -> None:
    with RedisStandIn(Transactions("8.6.0")) as server:
        assert send(sink_for(server, idempotent="off"), events(1)) == {Outcome.OK}
    assert server.named("XADD")[0][2] == "*"


def test_ids_wanted_from_an_old_server_are_refused() -> None:
    with RedisStandIn(Transactions("7.2.4")) as server:
        sink = sink_for(server, idempotent="on")
        with pytest.raises(SinkError, match=r"requires Redis 8\.6; the server has 7\.2\.4"):
            sink.open()
        sink.close(1)


def test_batches_are_transactions_unless_switched_off() -> None:
    with RedisStandIn(Transactions("7.2.4")) as server:
        assert send(sink_for(server), events(2)) == {Outcome.OK}
        assert [len(server.named(name)) for name in ("MULTI", "XADD", "EXEC")] == [1, 2, 1]
        assert send(sink_for(server, transaction=False), events(2)) == {Outcome.OK}
        assert [len(server.named(name)) for name in ("MULTI", "XADD", "EXEC")] == [1, 4, 1]


def test_batches_of_one_stream_follow_one_another_and_other_streams_go_with_them() -> None:
    router = RedisSettings(host="h", key_template="{{symbol}}").router()
    with RedisStandIn(Transactions("7.2.4")) as server:
        sink = sink_for(server, max_batch_size=2, max_in_flight=2)
        assert sink.max_batch_events == 4
        assert send(sink, make_events(router, 5, symbols=("A", "B"))) == {Outcome.OK}
    added = [words[1] if words[0] == "XADD" else words[0] for words in server.commands]
    first = ["MULTI", "A", "A", "EXEC", "MULTI", "B", "B", "EXEC"]
    assert added[-len(first) - 3 :] == [*first, "MULTI", "A", "EXEC"]


def test_batch_behind_a_refused_one_is_not_sent() -> None:
    def answer(words: list[str]) -> bytes:
        return b"-OOM no memory\r\n" if words[0] == "XADD" else transactions(words)

    transactions = Transactions("7.2.4")
    with RedisStandIn(answer) as server:
        sink = sink_for(server, max_batch_size=2, transaction=False)
        sink.open()
        results = sink.send(events(4))
        sink.close(1)
    assert [result.reason for result in results] == ["out_of_memory"] * 2 + ["held_back"] * 2
    assert len(server.named("XADD")) == 2


def test_loading_server_refuses_every_command_and_keeps_its_connection() -> None:
    answer = Transactions("7.2.4")

    def loading(words: list[str]) -> bytes:
        return answer(words) if words[0] in ("INFO", "CONFIG") else b"-LOADING in memory\r\n"

    with RedisStandIn(loading) as server:
        sink = sink_for(server)
        sink.open()
        results = sink.send(events(3))
        assert {(r.outcome, r.reason) for r in results} == {(Outcome.TRANSIENT, "loading")}
        sink.close(1)


def test_first_sentinel_that_answers_names_the_master(closed_port: int) -> None:
    with RedisStandIn(Transactions("7.2.4")) as master:
        place = array(bulk("127.0.0.1"), bulk(str(master.port)))
        with RedisStandIn(lambda words: place) as sentinel:
            settings = RedisSettings(
                sentinel_hosts=(f"127.0.0.1:{closed_port}", f"127.0.0.1:{sentinel.port}"),
                sentinel_master="main",
                stream="s",
            )
            assert send(RedisSink(settings, EventBusSettings()), events(1)) == {Outcome.OK}
        assert sentinel.commands == [["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]]


def test_new_master_is_followed_after_the_old_one_went_read_only() -> None:
    old_answer = Transactions("7.2.4")
    refusals = {"XADD": b"-READONLY replica\r\n", "EXEC": b"-EXECABORT discarded\r\n"}

    def read_only(words: list[str]) -> bytes:
        return refusals.get(words[0]) or old_answer(words)

    with RedisStandIn(read_only) as old, RedisStandIn(Transactions("7.2.4")) as new:
        masters = [old, new, new]

        def place(_words: list[str]) -> bytes:
            return array(bulk("127.0.0.1"), bulk(str(masters.pop(0).port)))

        with RedisStandIn(place) as sentinel:
            settings = RedisSettings(
                sentinel_hosts=(f"127.0.0.1:{sentinel.port}",), sentinel_master="main", stream="s"
            )
            sink = RedisSink(settings, EventBusSettings())
            sink.open()
            assert {r.reason for r in sink.send(events(2))} == {"read_only"}
            assert {r.outcome for r in sink.send(events(2))} == {Outcome.OK}
            sink.close(1)
        assert len(new.named("XADD")) == 2


def test_sentinels_that_know_no_master_are_an_outage() -> None:
    with RedisStandIn(lambda words: b"*-1\r\n") as sentinel:
        settings = RedisSettings(
            sentinel_hosts=(f"127.0.0.1:{sentinel.port}",), sentinel_master="main", stream="s"
        )
        with pytest.raises(SinkUnavailableError, match="unknown master"):
            RedisSink(settings, EventBusSettings()).open()
