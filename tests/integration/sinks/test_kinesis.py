"""The Kinesis sink against a real server behind a proxy that spoils calls."""

import asyncio
import base64
import datetime
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from tardis_machine.bronze.decode import Decoder
from tardis_machine.bronze.envelope import identity, parse_event
from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.model.records import Trade
from tardis_machine.model.settings import Secret
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.kinesis.sink import KinesisSink
from tests.contract.sinks import (
    BusUnderTest,
    Received,
    ServerSinkContract,
    ServerUnderTest,
    enlarged,
    make_events,
)
from tests.integration.sinks.packed_records import unpack
from tests.servers.faults import AbortAfter, AbortBefore, Delay
from tests.servers.kinesis import Kinesis
from tests.servers.kinesis_faults import (
    ACCESS_DENIED,
    EXPIRED_TOKEN,
    INTERNAL_FAILURE,
    THROTTLE_CALL,
    FailCall,
    FailRecords,
    ShardLimit,
)
from tests.servers.plugin import unique_name
from tests.servers.readers import read_kinesis
from tests.servers.tcp_proxy import MakeProxy, TcpProxy
from tests.servers.threaded import ServerThread

pytestmark = pytest.mark.broker

OpenSink = Callable[..., KinesisSink]
SYMBOLS = tuple(f"S{number}" for number in range(20))


def login(address: str) -> dict[str, Any]:
    return {
        "region": "us-east-1",
        "access_key_id": "AKIDTEST",
        "secret_access_key": Secret("test-secret"),
        "endpoint_url": address,
    }


def read(address: str, stream: str) -> list[Received]:
    """Return what consumers see, packed records unpacked."""
    return [
        Received(record.key or "", identity(event), event.meta["delivery_id"], data)
        for record in asyncio.run(read_kinesis(address, stream))
        for data in unpack(record.value)
        for event in [parse_event(data)]
    ]


class KinesisUnderTest(ServerUnderTest):
    """A stream of two shards behind a proxy."""

    too_large_bytes = 1_048_577

    def __init__(self, kinesis: Kinesis, proxy: TcpProxy, stream: str, **options: Any) -> None:
        address = kinesis.address_at(proxy.endpoint)
        super().__init__(proxy, KinesisSettings(stream=stream, **login(address), **options))
        self._kinesis = kinesis
        self._stream = stream

    def received(self) -> list[Received]:
        return read(self._kinesis.address, self._stream)


class TestKinesis(ServerSinkContract):
    @pytest.fixture
    def bus(self, kinesis: Kinesis, tcp_proxy: MakeProxy, kinesis_stream: str) -> BusUnderTest:
        return KinesisUnderTest(kinesis, tcp_proxy(kinesis.endpoint), kinesis_stream)


class TestKinesisPacked(ServerSinkContract):
    """The same with many events in one record."""

    @pytest.fixture
    def bus(self, kinesis: Kinesis, tcp_proxy: MakeProxy, kinesis_stream: str) -> BusUnderTest:
        return KinesisUnderTest(
            kinesis,
            tcp_proxy(kinesis.endpoint),
            kinesis_stream,
            aggregation="kpl",
            aggregation_max_bytes=4096,
        )


@pytest.fixture
def open_sink(kinesis: Kinesis) -> Iterator[OpenSink]:
    """Give a function that opens a sink with some settings."""
    sinks: list[KinesisSink] = []

    def make(**options: Any) -> KinesisSink:
        settings = KinesisSettings(**(login(kinesis.address) | options))
        sink = KinesisSink(settings, settings.resolve(EventBusSettings()))
        sinks.append(sink)
        sink.open()
        return sink

    yield make
    for sink in sinks:
        sink.close(2)


def events_for(stream: str, count: int, **options: Any) -> list[Event]:
    router = KinesisSettings(stream=stream, region="us-east-1").router()
    return make_events(router, count, **options)


def outcomes(results: Sequence[Result]) -> set[Outcome]:
    return {result.outcome for result in results}


def kinds(results: Sequence[Result]) -> set[tuple[str, str]]:
    return {(result.outcome.value, result.reason) for result in results}


def send_until_ok(sink: KinesisSink, events: list[Event], most: int = 10_000) -> list[Result]:
    """Send as a sender would: what failed goes first, in its order; return all that was said.

    Args:
        sink: to send to.
        events: all of them.
        most: events of one batch.
    """
    said: list[Result] = []
    left = events
    deadline = time.monotonic() + 240
    while left:
        assert time.monotonic() < deadline, said[-3:]
        batch, rest = left[:most], left[most:]
        results = list(sink.send(batch))
        said += results
        left = [e for e, r in zip(batch, results, strict=True) if r.outcome is not Outcome.OK]
        left += rest
        if Outcome.CLIENT_LOST in outcomes(results):
            reopen(sink)
    return said


def reopen(sink: KinesisSink) -> None:
    deadline = time.monotonic() + 240
    while True:
        try:
            return sink.open()
        except SinkUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def ids(events: Sequence[Event]) -> list[str]:
    return [event.delivery_id for event in events]


def stored_ids(kinesis: Kinesis, stream: str) -> list[str]:
    return [record.delivery_id for record in read(kinesis.address, stream)]


def by_key(pairs: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the ids of each key in the order of their first arrival."""
    found: dict[str, dict[str, None]] = {}
    for key, name in pairs:
        found.setdefault(key, {})[name] = None
    return {key: list(names) for key, names in found.items()}


def is_in_order(kinesis: Kinesis, stream: str, events: Sequence[Event]) -> bool:
    stored = by_key([(r.key, r.delivery_id) for r in read(kinesis.address, stream)])
    return stored == by_key([(e.route.key, e.delivery_id) for e in events])


# -- partial failures


@pytest.mark.parametrize(
    ("options", "keeps_order"),
    [
        ({"ordering": "batch"}, False),
        ({"ordering": "strict"}, True),
        ({"ordering": "none"}, False),
        ({"aggregation": "kpl", "aggregation_max_bytes": 1024}, True),
    ],
    ids=["batch", "strict", "none", "kpl"],
)
def test_refused_records_are_sent_again_alone(
    kinesis: Kinesis,
    kinesis_stream: str,
    open_sink: OpenSink,
    options: dict[str, Any],
    keeps_order: bool,
) -> None:
    sink = open_sink(stream=kinesis_stream, max_shard_rate=0, **options)
    events = events_for(kinesis_stream, 200, symbols=SYMBOLS)
    kinesis.faults.always(FailRecords.share(0.2, seed=7))
    said = send_until_ok(sink, events)
    assert ("transient", "throttled") in kinds(said)
    assert {r.retry_after_seconds for r in said if r.reason == "throttled"} == {1.0}
    # Nothing that was stored was sent again.
    assert Counter(stored_ids(kinesis, kinesis_stream)) == Counter(ids(events))
    if keeps_order:
        assert is_in_order(kinesis, kinesis_stream, events)


def test_batch_order_sends_nothing_of_a_key_before_its_failed_records(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream, max_batch_size=10, max_shard_rate=0)
    events = events_for(kinesis_stream, 30)
    kinesis.faults.plan(FailRecords.at(3))
    results = list(sink.send(events))
    assert kinds(results[:10]) == {("ok", ""), ("transient", "throttled")}
    assert kinds(results[10:]) == {("transient", "held_back")}
    assert len(kinesis.faults.calls[-1].records) == 10


@pytest.mark.parametrize("most", [1000, 7])
def test_batch_order_delays_no_record_by_more_than_a_call(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink, most: int
) -> None:
    sink = open_sink(stream=kinesis_stream, max_batch_size=10, max_shard_rate=0)
    events = events_for(kinesis_stream, 200, symbols=("XBTUSD", "ETHUSD"))
    # However often a record is refused: newer ones of its key wait for it.
    kinesis.faults.always(FailRecords.share(0.5, seed=7))
    results = sink.send(events)
    failed = [e for e, r in zip(events, results, strict=True) if r.outcome is not Outcome.OK]
    # Batches may end in the middle of what failed.
    send_until_ok(sink, failed, most)
    kinesis.faults.heal()
    given = by_key([(e.route.key, e.delivery_id) for e in events])
    stored = by_key([(r.key, r.delivery_id) for r in read(kinesis.address, kinesis_stream)])
    for key, names in stored.items():
        assert sorted(names) == sorted(given[key])
        assert latest(names, given[key]) < 10


def latest(stored: Sequence[str], given: Sequence[str]) -> int:
    """Return by how many places the latest event came after a newer one."""
    places = [given.index(name) for name in stored]
    return max(
        newest - place for newest, place in zip(accumulate(places, max), places, strict=True)
    )


def test_failing_shard_leaves_the_other_alone(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream, ordering="strict")
    events = events_for(kinesis_stream, 100, symbols=SYMBOLS)
    sink.send(events[:20])
    shards = {r.partition_key: r.shard_id for call in kinesis.faults.calls for r in call.records}
    victim = min(shards.values())
    kinesis.faults.always(FailRecords.shard(victim, "InternalFailure"))
    results = sink.send(events[20:])
    for event, result in zip(events[20:], results, strict=True):
        assert (result.outcome is Outcome.OK) == (shards[event.route.key] != victim)
    kinesis.faults.heal()
    left = [e for e, r in zip(events[20:], results, strict=True) if r.outcome is not Outcome.OK]
    send_until_ok(sink, left)
    assert is_in_order(kinesis, kinesis_stream, events)


def test_limited_shards_are_not_pushed_over_their_rate(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream, max_shard_rate=0.2)
    kinesis.faults.limit_shards(ShardLimit(records_per_second=250))
    # Both shards have 200 in hand and then 200 per second.
    events = events_for(kinesis_stream, 900, symbols=SYMBOLS)
    began = time.monotonic()
    results = sink.send(events)
    assert outcomes(results) == {Outcome.OK}
    assert time.monotonic() - began > 0.5


def test_refused_shard_is_left_in_peace_for_a_while(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream)
    kinesis.faults.limit_shards(ShardLimit(records_per_second=10, clock=lambda: 0.0))
    results = sink.send(events_for(kinesis_stream, 30))
    assert kinds(results) == {("ok", ""), ("transient", "throttled")}
    kinesis.faults.heal()
    # The bucket of the shard is empty now: one record per millisecond.
    began = time.monotonic()
    assert outcomes(sink.send(events_for(kinesis_stream, 50, first=100))) == {Outcome.OK}
    assert time.monotonic() - began > 0.02


# -- whole calls


REFUSALS: list[tuple[Any, tuple[str, str]]] = [
    (THROTTLE_CALL, ("transient", "throttled")),
    (FailCall("LimitExceededException"), ("transient", "throttled")),
    (FailCall("KMSThrottlingException"), ("transient", "throttled")),
    (INTERNAL_FAILURE, ("transient", "internal_error")),
    (FailCall("ServiceUnavailable", 503), ("transient", "internal_error")),
    (FailCall("KMSDisabledException"), ("bad_target", "encryption")),
    (FailCall("ResourceNotFoundException"), ("bad_target", "no_destination")),
    (ACCESS_DENIED, ("bad_target", "not_authorized")),
    (FailCall("UnrecognizedClientException"), ("bad_target", "not_authenticated")),
    (FailCall("InvalidSignatureException"), ("bad_target", "not_authenticated")),
    (FailCall("InvalidArgumentException"), ("bad_record", "invalid_record")),
    (
        FailCall("ValidationException", message="streamName"),
        ("bad_target", "invalid_destination"),
    ),
    (FailCall("x", 413), ("transient", "call_too_large")),
    (AbortBefore(), ("ambiguous", "connection_lost")),
    (AbortBefore(is_reset=True), ("ambiguous", "connection_lost")),
]


def test_refused_call_says_what_it_means_and_later_succeeds(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream, max_shard_rate=0)
    sent: list[Event] = []
    for fault, expected in REFUSALS:
        events = events_for(kinesis_stream, 4, first=len(sent))
        kinesis.faults.plan(fault)
        results = sink.send(events)
        assert kinds(results) == {expected}, fault
        assert all(result.is_shared == (expected[0] == "bad_record") for result in results)
        assert outcomes(sink.send(events)) == {Outcome.OK}
        sent += events
    assert stored_ids(kinesis, kinesis_stream) == ids(sent)


def test_expired_token_is_renewed_by_opening_again(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream)
    events = events_for(kinesis_stream, 4)
    kinesis.faults.plan(EXPIRED_TOKEN)
    assert kinds(sink.send(events)) == {("client_lost", "expired_token")}
    sink.open()
    assert outcomes(sink.send(events)) == {Outcome.OK}


def test_call_that_is_too_large_is_halved(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream, max_shard_rate=0)
    events = [enlarged(event, 50_000) for event in events_for(kinesis_stream, 8)]
    kinesis.faults.plan(FailCall("x", 413))
    assert kinds(sink.send(events)) == {("transient", "call_too_large")}
    assert outcomes(sink.send(events)) == {Outcome.OK}
    calls = [len(call.records) for call in kinesis.faults.calls if call.stream == kinesis_stream]
    assert calls[0] == 8
    assert max(calls[1:]) <= 4


@pytest.mark.parametrize("is_reset", [False, True])
def test_lost_answer_makes_duplicates_with_the_same_id(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink, is_reset: bool
) -> None:
    sink = open_sink(stream=kinesis_stream)
    events = events_for(kinesis_stream, 10)
    kinesis.faults.plan(AbortAfter(is_reset))
    assert outcomes(sink.send(events)) == {Outcome.AMBIGUOUS}
    send_until_ok(sink, events)
    assert Counter(stored_ids(kinesis, kinesis_stream)) == Counter(ids(events) * 2)
    assert is_in_order(kinesis, kinesis_stream, events)


def test_late_answer_is_not_waited_for(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream, request_timeout_ms=1500)
    events = events_for(kinesis_stream, 5)
    sink.send(events_for(kinesis_stream, 1, first=100))
    kinesis.faults.plan(Delay(6.0))
    results = sink.send(events)
    assert kinds(results) == {("ambiguous", "timeout")}
    send_until_ok(sink, events)


def test_half_open_connection_is_noticed_within_the_request_timeout(
    kinesis: Kinesis,
    kinesis_stream: str,
    open_sink: OpenSink,
    tcp_proxy: MakeProxy,
) -> None:
    proxy = tcp_proxy(kinesis.endpoint)
    sink = open_sink(
        stream=kinesis_stream,
        endpoint_url=kinesis.address_at(proxy.endpoint),
        request_timeout_ms=1500,
    )
    sink.send(events_for(kinesis_stream, 1))
    proxy.pause()
    began = time.monotonic()
    results = sink.send(events_for(kinesis_stream, 5, first=1))
    assert kinds(results) == {("ambiguous", "timeout")}
    assert time.monotonic() - began < 10
    proxy.heal()
    send_until_ok(sink, events_for(kinesis_stream, 5, first=1))


def test_server_that_does_not_answer_is_asked_for_one_stream_only(
    kinesis: Kinesis, open_sink: OpenSink, tcp_proxy: MakeProxy
) -> None:
    proxy = tcp_proxy(kinesis.endpoint)
    sink = open_sink(
        stream="s0", endpoint_url=kinesis.address_at(proxy.endpoint), request_timeout_ms=1500
    )
    events = [each for n in range(60) for each in events_for(f"s{n}", 1, first=n)]
    proxy.pause()
    began = time.monotonic()
    assert kinds(sink.send(events)) == {("client_lost", "unreachable")}
    # One after the other would take a minute and a half.
    assert time.monotonic() - began < 45
    proxy.heal()


def test_killed_server_delays_events_until_it_is_back(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream, ordering="strict")
    events = events_for(kinesis_stream, 120, symbols=SYMBOLS[:4])
    send_until_ok(sink, events[:40])
    kinesis.kill()
    assert kinds(sink.send(events[40:80])) == {
        ("client_lost", "unreachable"),
        ("transient", "held_back"),
    }
    with pytest.raises(SinkUnavailableError):
        sink.open()
    kinesis.start()
    reopen(sink)
    send_until_ok(sink, events[40:])
    assert is_in_order(kinesis, kinesis_stream, events)


def test_paused_server_answers_in_doubt(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream, request_timeout_ms=1500)
    events = events_for(kinesis_stream, 20)
    send_until_ok(sink, events[:10])
    kinesis.pause()
    assert outcomes(sink.send(events[10:])) == {Outcome.AMBIGUOUS}
    kinesis.resume()
    send_until_ok(sink, events[10:])
    assert set(stored_ids(kinesis, kinesis_stream)) == set(ids(events))


# -- targets and logins


def test_missing_stream_is_a_bad_target_until_it_is_there(
    kinesis: Kinesis, open_sink: OpenSink
) -> None:
    name = unique_name("stream")
    sink = open_sink(stream=name)
    events = events_for(name, 3)
    assert kinds(sink.send(events)) == {("bad_target", "no_destination")}
    open_sink(stream=name, create_stream="1").send(events_for(name, 1, first=10))
    assert outcomes(sink.send(events)) == {Outcome.OK}


@pytest.mark.parametrize("wanted", ["3", "on-demand"])
def test_missing_stream_is_created(kinesis: Kinesis, open_sink: OpenSink, wanted: str) -> None:
    name = unique_name("stream")
    sink = open_sink(stream=name, create_stream=wanted)
    events = events_for(name, 60, symbols=SYMBOLS)
    assert outcomes(sink.send(events)) == {Outcome.OK}
    records = asyncio.run(read_kinesis(kinesis.address, name))
    assert len({record.partition for record in records}) == (3 if wanted == "3" else 4)


def test_stream_can_be_given_by_its_arn(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    arn = f"arn:aws:kinesis:us-east-1:000000000000:stream/{kinesis_stream}"
    sink = open_sink(stream=arn, region=None)
    assert outcomes(sink.send(events_for(arn, 2))) == {Outcome.OK}
    assert len(stored_ids(kinesis, kinesis_stream)) == 2


@pytest.mark.parametrize("fault", [EXPIRED_TOKEN, FailCall("UnrecognizedClientException")])
def test_refused_credentials_park_the_bus_and_are_not_shown(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink, fault: FailCall
) -> None:
    kinesis.faults.refuse_every_call(fault)
    with pytest.raises(SinkError) as caught:
        open_sink(stream=kinesis_stream)
    assert not caught.value.retryable
    assert fault.code in str(caught.value)
    assert "test-secret" not in f"{caught.value!r}"
    kinesis.faults.heal()
    sink = open_sink(stream=kinesis_stream)
    assert outcomes(sink.send(events_for(kinesis_stream, 1))) == {Outcome.OK}


def test_denied_description_does_not_stop_records(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    kinesis.faults.refuse_every_call(ACCESS_DENIED)
    sink = open_sink(stream=kinesis_stream)
    assert kinds(sink.send(events_for(kinesis_stream, 2))) == {("bad_target", "not_authorized")}
    kinesis.faults.heal()
    assert outcomes(sink.send(events_for(kinesis_stream, 2))) == {Outcome.OK}


def test_unreachable_endpoint_is_said_soon(open_sink: OpenSink, closed_port: int) -> None:
    with pytest.raises(SinkUnavailableError, match="not reachable"):
        open_sink(stream="s", endpoint_url=f"http://127.0.0.1:{closed_port}")


def test_no_credentials_are_an_error_of_the_operator(
    open_sink: OpenSink, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nowhere(monkeypatch, tmp_path)
    with pytest.raises(SinkError, match="credentials") as caught:
        open_sink(stream="s", access_key_id=None, secret_access_key=None)
    assert not caught.value.retryable


def test_profile_gives_region_and_credentials(
    kinesis: Kinesis,
    kinesis_stream: str,
    open_sink: OpenSink,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    nowhere(monkeypatch, tmp_path)
    (tmp_path / "config").write_text("[profile lake]\nregion = us-east-1\n")
    (tmp_path / "credentials").write_text(
        "[lake]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = x\n"
    )
    options = {"access_key_id": None, "secret_access_key": None, "region": None}
    sink = open_sink(stream=kinesis_stream, profile="lake", **options)
    assert outcomes(sink.send(events_for(kinesis_stream, 2))) == {Outcome.OK}


def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave nothing for the default chain but files in the given folder."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


class TokenService(ServerThread):
    """As much of AWS STS as assuming a role takes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, list[str]]] = []
        self.valid_seconds = 3600

    async def open(self) -> None:
        application = web.Application()
        application.router.add_post("/", self._answer)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def shut(self) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.calls.append(parse_qs(await request.text()))
        now = datetime.datetime.now(datetime.UTC)
        ends = now + datetime.timedelta(seconds=self.valid_seconds)
        text = f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
          <AssumeRoleResult><Credentials><AccessKeyId>AKIDROLE</AccessKeyId>
          <SecretAccessKey>role-secret</SecretAccessKey><SessionToken>role-token</SessionToken>
          <Expiration>{ends:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials></AssumeRoleResult>
          </AssumeRoleResponse>"""
        return web.Response(text=text, content_type="text/xml")


def test_role_is_assumed_and_renewed_before_it_expires(
    kinesis_stream: str, open_sink: OpenSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = "arn:aws:iam::123456789012:role/publisher"
    with TokenService() as service:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://{service.endpoint}")
        service.valid_seconds = 60
        sink = open_sink(stream=kinesis_stream, role_arn=role, role_external_id="x-1")
        (call,) = service.calls
        assert (call["RoleArn"], call["ExternalId"]) == ([role], ["x-1"])
        events = events_for(kinesis_stream, 2)
        assert kinds(sink.send(events)) == {("client_lost", "expired_token")}
        service.valid_seconds = 3600
        sink.open()
        assert outcomes(sink.send(events)) == {Outcome.OK}
        assert len(service.calls) == 2


# -- what arrives


def test_table_of_routes_headers_and_keys_arrives_exactly(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    options: dict[str, Any] = {
        "stream": "unused",
        "stream_routing": {"trade": kinesis_stream},
        "partition_key_template": "{{symbol}}",
        "static_headers": {"env": "test", "request_id": "not mine", "data_type": "nor this"},
    }
    sink = open_sink(**options)
    router = KinesisSettings(region="us-east-1", **options).router()
    events = make_events(router, 4, symbols=("XBTUSD", "", "x" * 300, "ü"))
    assert outcomes(sink.send(events)) == {Outcome.OK}
    records = asyncio.run(read_kinesis(kinesis.address, kinesis_stream))
    keys = {record.key or "": record.value for record in records}
    assert set(keys) == {event.route.key for event in events}
    assert {"XBTUSD", "_", "ü"} < set(keys)
    (long,) = [key for key in keys if len(key) > 200]
    assert (len(long), long[:223], long[223]) == (256, "x" * 223, "#")
    parsed = parse_event(keys["XBTUSD"])
    assert dict(parsed.meta) == {
        "request_id": "r-1",
        "data_type": "trade",
        "env": "test",
        "delivery_id": events[0].delivery_id,
    }
    assert keys["XBTUSD"].startswith(events[0].data)
    (record,) = Decoder().decode([keys["ü"]])
    assert isinstance(record, Trade)
    assert record.symbol == "ü"


def test_pinned_symbols_share_a_shard_whatever_their_key(
    kinesis: Kinesis, open_sink: OpenSink
) -> None:
    name = unique_name("stream")
    template = "{{symbol}}-{{meta.request_id}}-{{exchange}}"
    options: dict[str, Any] = {"explicit_hash_key": "symbol", "create_stream": "8"}
    for key in ("{{symbol}}", template):
        sink = open_sink(stream=name, partition_key_template=key, **options)
        router = KinesisSettings(
            stream=name, region="us-east-1", partition_key_template=key
        ).router()
        assert outcomes(sink.send(make_events(router, 20, symbols=SYMBOLS))) == {Outcome.OK}
    places: dict[str, set[str]] = {}
    for record in asyncio.run(read_kinesis(kinesis.address, name)):
        places.setdefault(parse_event(record.value).symbol, set()).add(record.partition)
    assert {len(shards) for shards in places.values()} == {1}
    assert len({shard for shards in places.values() for shard in shards}) > 1


def test_several_calls_are_in_flight_for_different_keys(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream, max_batch_size=5, max_in_flight=4)
    events = events_for(kinesis_stream, 20, symbols=SYMBOLS)
    sink.send(events_for(kinesis_stream, 1, first=100))
    kinesis.faults.always(Delay(1.5))
    began = time.monotonic()
    assert outcomes(sink.send(events)) == {Outcome.OK}
    assert time.monotonic() - began < 4 * 1.5


def test_packed_records_hold_one_key_each_and_stay_below_their_size(
    kinesis: Kinesis, kinesis_stream: str, open_sink: OpenSink
) -> None:
    sink = open_sink(stream=kinesis_stream, aggregation="kpl", aggregation_max_bytes=2048)
    events = events_for(kinesis_stream, 100, symbols=SYMBOLS[:2])
    events[50] = enlarged(events[50], 5000)
    assert outcomes(sink.send(events)) == {Outcome.OK}
    assert is_in_order(kinesis, kinesis_stream, events)
    sizes = [
        len(base64.b64decode(record.data))
        for call in kinesis.faults.calls
        if call.stream == kinesis_stream
        for record in call.records
    ]
    assert sum(size > 2048 for size in sizes) == 1
    assert len(sizes) < 20
