"""What every sink must do, written once.

A bus is done when its subclass of `SinkContract` passes, for a bus with a server that of
`ServerSinkContract` against a real one::

    class TestKafka(ServerSinkContract):
        @pytest.fixture
        def bus(self, kafka, kafka_proxy) -> ServerUnderTest:
            return KafkaUnderTest(kafka, kafka_proxy)
"""

import gc
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias
from weakref import ref

import pytest

from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import identities
from tardis_machine.bronze.routing import Router
from tardis_machine.bronze.series import Origin, Series
from tardis_machine.buses.results import Outcome
from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.model.records import Trade
from tardis_machine.model.time import us_text
from tardis_machine.sinks.base import Event, Sink
from tardis_machine.sinks.dead_letters.files import letter_files, read_letters
from tardis_machine.sinks.delivery.bus import Bus
from tardis_machine.sinks.delivery.events import address
from tardis_machine.sinks.registry import make_sink
from tardis_machine.sinks.reporting.status import BusState
from tardis_machine.telemetry.metrics import Metrics
from tests.contract.event_logs import Delivery, EventLog, now_us
from tests.servers.tcp_proxy import TcpProxy

START_US = 1_709_251_200_000_000
DEADLINE_SECONDS = 240.0
# An upper bound that shows which time limit took effect, on a machine that is busy.
SOON_SECONDS = 25.0
REQUEST_MS = 1000
"""How long a request may take where a test waits for its end."""

Start: TypeAlias = Callable[[], Bus]


class Received(NamedTuple):
    """One event as a consumer of the bus sees it."""

    key: str
    """Ordering key; the destination on buses without one."""
    event_id: str
    delivery_id: str
    data: bytes


class BusUnderTest(Protocol):
    """A real server with a destination of this test's own."""

    settings: BusSettings
    """Settings that publish to that destination."""
    too_large_bytes: int | None
    """Size of an envelope that the bus refuses for its size; None: it has no such limit."""

    def received(self) -> Sequence[Received]:
        """Return everything stored so far, events of one key in their stored order."""

    def take_down(self) -> None:
        """Make the server unreachable, as a crash or a cut network does."""

    def bring_back(self) -> None:
        """Make the server reachable again, with what it had stored."""


class ServerUnderTest:
    """The part of `BusUnderTest` that is the same for every server, given a proxy before it."""

    deadline_option: ClassVar[str] = "request_timeout_ms"

    def __init__(self, proxy: TcpProxy, settings: BusSettings) -> None:
        self.proxy = proxy
        self.settings = settings

    def take_down(self) -> None:
        self.proxy.stop()

    def bring_back(self) -> None:
        self.proxy.heal()

    def hurry(self) -> None:
        """Let requests end after `REQUEST_MS`; connecting takes as long as ever."""
        changes: dict[str, Any] = {self.deadline_option: REQUEST_MS}
        self.settings = replace(self.settings, **changes)


def make_events(
    router: Router, count: int, *, symbols: Sequence[str] = ("XBTUSD",), first: int = 0
) -> list[Event]:
    """Return events of several symbols in turn, numbered on from `first`."""
    records = [
        Trade(
            symbol=symbols[number % len(symbols)],
            exchange="bitmex",
            id=str(number),
            price=60_000.0 + number,
            amount=1.0,
            side="buy",
            timestamp=us_text(START_US + number),
            local_timestamp=us_text(START_US + number),
        )
        for number in range(first, first + count)
    ]
    envelopes = Encoder("tester", Origin.REPLAY, {"request_id": "r-1"}).encode(records, START_US)
    delivery_ids = [f"tester-boot-{number}" for number in range(first, first + count)]
    return address(envelopes, router, identities(envelopes), delivery_ids, time.time())


def enlarged(event: Event, size: int) -> Event:
    """Return an event whose envelope has at least this many bytes and is still an envelope."""
    # Field 9 is the `meta` map: an entry holds key (1) and value (2).
    entry = b"\x0a\x03pad\x12" + _varint(size) + b"x" * size
    data = event.data + b"\x4a" + _varint(len(entry)) + entry
    return Event(
        route=event.route,
        series=event.series,
        data=data,
        event_id=event.event_id,
        delivery_id=event.delivery_id,
        accepted_at=event.accepted_at,
    )


def wait_until(is_true: Callable[[], bool], what: str) -> None:
    """Wait for something to become true, with a generous deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.01)


def living_series() -> list[Series]:
    """Return every series that somebody in this process holds."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, Series)]


def first_ids_per_key(received: Sequence[Received]) -> dict[str, list[str]]:
    """Return per key the ids in the order of their first arrival."""
    ids: dict[str, dict[str, None]] = {}
    for event in received:
        ids.setdefault(event.key, {})[event.event_id] = None
    return {key: list(seen) for key, seen in ids.items()}


def expected_ids_per_key(
    events: Sequence[Event], key_of: Callable[[Event], str]
) -> dict[str, list[str]]:
    """Return per key the ids in the order in which events were given."""
    ordered = sorted(events, key=key_of)
    return {
        key: [event.event_id for event in group]
        for key, group in itertools.groupby(ordered, key=key_of)
    }


class SinkContract:
    """What every sink must do; a subclass only says how to build its bus (fixture `bus`)."""

    def make_sink(self, bus: BusUnderTest, delivery: EventBusSettings) -> Sink:
        return make_sink(bus.settings, delivery)

    def open_sink(self, bus: BusUnderTest) -> Sink:
        delivery = bus.settings.resolve(EventBusSettings(producer_id="tester"))
        sink = self.make_sink(bus, delivery)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                sink.open()
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return sink

    def key_of(self, event: Event) -> str:
        return event.route.key or event.route.destination

    def forget_stored(self, bus: BusUnderTest) -> None:
        """Empty a bus that keeps the events themselves; others keep bytes."""

    def test_batch_is_stored_in_order_with_ids_and_bytes(self, bus: BusUnderTest) -> None:
        sink = self.open_sink(bus)
        events = make_events(bus.settings.router(), 300, symbols=("XBTUSD", "ETHUSD", "SOLUSD"))
        results = sink.send(events)
        sink.close(5)
        assert [result.outcome for result in results] == [Outcome.OK] * len(events)
        received = bus.received()
        assert first_ids_per_key(received) == expected_ids_per_key(events, self.key_of)
        by_id = {event.event_id: event for event in received}
        for event in events:
            assert by_id[event.event_id].delivery_id == event.delivery_id
            assert by_id[event.event_id].data.startswith(event.data)

    def test_batches_follow_one_another_in_order(self, bus: BusUnderTest) -> None:
        sink = self.open_sink(bus)
        router = bus.settings.router()
        events = make_events(router, 200)
        for start in range(0, len(events), 50):
            results = sink.send(events[start : start + 50])
            assert {result.outcome for result in results} == {Outcome.OK}
        sink.close(5)
        assert first_ids_per_key(bus.received()) == expected_ids_per_key(events, self.key_of)

    def test_too_large_event_is_refused_alone(self, bus: BusUnderTest) -> None:
        if bus.too_large_bytes is None:
            return
        sink = self.open_sink(bus)
        events = make_events(bus.settings.router(), 5, symbols=("XBTUSD", "ETHUSD"))
        events[2] = enlarged(events[2], bus.too_large_bytes)
        results = sink.send(events)
        assert results[2].outcome is Outcome.BAD_RECORD
        assert results[2].reason
        # What shares the batch or the key with it is stored, now or when it is sent again.
        again = [event for event, result in zip(events, results, strict=True) if _may_retry(result)]
        if again:
            assert {result.outcome for result in sink.send(again)} == {Outcome.OK}
        sink.close(5)
        stored = {event.event_id for event in bus.received()}
        assert stored == {event.event_id for event in events} - {events[2].event_id}

    @pytest.fixture
    def start(self, bus: BusUnderTest, tmp_path: Path) -> Iterator[Start]:
        """Give a function that starts delivery of a log to the bus; it is stopped at the end."""
        started: list[Bus] = []
        self.log: EventLog | None = None

        def start() -> Bus:
            delivery = bus.settings.resolve(
                EventBusSettings(producer_id="tester", retry_initial_ms=20, retry_max_ms=200)
            )
            sink = self.make_sink(bus, delivery)
            root = tmp_path / "work"
            made = Bus(bus.settings, delivery, sink, root, Metrics().event_bus, now_us)
            self.log = self.log or EventLog(root, made.reader)
            self.log.read_by(made)
            made.start()
            started.append(made)
            return made

        yield start
        for each in started:
            each.stop(10)
            each.close()

    def deliver(self, running: Bus, events: list[Event]) -> Delivery:
        """Write events as a worker does; what is returned is set when all are settled."""
        assert self.log is not None
        self.log.append(events)
        running.ring()
        return Delivery(running, self.log.events)

    def assert_all_arrived_in_order(self, bus: BusUnderTest, events: Sequence[Event]) -> None:
        assert first_ids_per_key(bus.received()) == expected_ids_per_key(events, self.key_of)

    def assert_adds_up(self, running: Bus, enqueued: int) -> None:
        status = running.status()
        totals = status.totals
        assert totals.accepted == enqueued
        settled = totals.published + totals.dead + totals.dropped
        assert settled + status.queued + status.parked == enqueued

    def test_delivery_is_in_order_once_and_counted(self, bus: BusUnderTest, start: Start) -> None:
        running = start()
        events = make_events(bus.settings.router(), 1000, symbols=("XBTUSD", "ETHUSD", "SOLUSD"))
        done = self.deliver(running, events)
        assert done.wait(DEADLINE_SECONDS)
        self.assert_all_arrived_in_order(bus, events)
        assert len(bus.received()) == len(events)
        assert running.status().totals.published == len(events)
        self.assert_adds_up(running, len(events))

    def test_nothing_is_kept_of_what_was_delivered(self, bus: BusUnderTest, start: Start) -> None:
        running, router = start(), bus.settings.router()
        # Those of other tests, which the traceback of one that failed may hold.
        others = {id(each): each for each in living_series()}

        def deliver(first: int) -> list[ref[Series]]:
            events = make_events(router, 100, symbols=("XBTUSD", "ETHUSD"), first=first)
            made = [ref(event.series) for event in events]
            delivered = self.deliver(running, events)
            del events
            assert delivered.wait(DEADLINE_SECONDS)
            return made + [ref(each) for each in living_series() if id(each) not in others]

        def is_gone() -> bool:
            gc.collect()
            return not any(each() for each in earlier)

        earlier = deliver(0)
        # A client may hold on to its last call, not to the one before.
        deliver(100)
        self.forget_stored(bus)
        wait_until(is_gone, "delivered events make way")

    def test_refused_event_becomes_a_dead_letter_and_its_neighbours_arrive(
        self, bus: BusUnderTest, start: Start, tmp_path: Path
    ) -> None:
        if bus.too_large_bytes is None:
            return
        running = start()
        events = make_events(bus.settings.router(), 20, symbols=("XBTUSD", "ETHUSD"))
        events[7] = enlarged(events[7], bus.too_large_bytes)
        assert self.deliver(running, events).wait(DEADLINE_SECONDS)
        rest = events[:7] + events[8:]
        self.assert_all_arrived_in_order(bus, rest)
        (file,) = letter_files(tmp_path / "work" / running.name)
        (letter,) = read_letters(file)
        assert (letter.event_id, letter.envelope) == (events[7].event_id, events[7].data)
        assert letter.reason
        assert running.status().totals.dead == 1
        self.assert_adds_up(running, len(events))

    def test_bus_gone_and_back_loses_and_reorders_nothing(
        self, bus: BusUnderTest, start: Start
    ) -> None:
        running = start()
        router, symbols = bus.settings.router(), ("XBTUSD", "ETHUSD")
        before = make_events(router, 100, symbols=symbols)
        assert self.deliver(running, before).wait(DEADLINE_SECONDS)
        bus.take_down()
        during = make_events(router, 300, symbols=symbols, first=100)
        delivered = self.deliver(running, during)
        delivered.wait(0.5)
        bus.bring_back()
        after = make_events(router, 100, symbols=symbols, first=400)
        assert self.deliver(running, after).wait(DEADLINE_SECONDS)
        assert delivered.wait(DEADLINE_SECONDS)
        self.assert_all_arrived_in_order(bus, [*before, *during, *after])
        self.assert_adds_up(running, 500)

    def test_bus_down_at_the_start_gets_everything_when_it_comes(
        self, bus: BusUnderTest, start: Start
    ) -> None:
        bus.take_down()
        running = start()
        events = make_events(bus.settings.router(), 200, symbols=("XBTUSD", "ETHUSD"))
        delivered = self.deliver(running, events)
        wait_until(lambda: running.status().last_error is not None, "the outage is seen")
        assert running.status().state in (BusState.CONNECTING, BusState.DEGRADED)
        assert not delivered.is_set()
        bus.bring_back()
        assert delivered.wait(DEADLINE_SECONDS)
        wait_until(lambda: running.status().state is BusState.UP, "the bus is up")
        self.assert_all_arrived_in_order(bus, events)
        self.assert_adds_up(running, len(events))

    def test_drain_delivers_what_is_left(self, bus: BusUnderTest, start: Start) -> None:
        running = start()
        events = make_events(bus.settings.router(), 500)
        done = self.deliver(running, events)
        running.drain()
        running.finish()
        assert done.wait(DEADLINE_SECONDS)
        running.wait_until_drained()
        running.stop(10)
        self.assert_all_arrived_in_order(bus, events)

    def test_events_left_at_the_end_are_delivered_after_the_next_start(
        self, bus: BusUnderTest, start: Start
    ) -> None:
        running = start()
        assert running.wait_until_open(DEADLINE_SECONDS)
        bus.take_down()
        first = make_events(bus.settings.router(), 200, symbols=("XBTUSD", "ETHUSD"))
        done = self.deliver(running, first)
        done.wait(0.2)
        running.stop(10)
        running.close()
        bus.bring_back()
        again = start()
        second = make_events(bus.settings.router(), 100, symbols=("XBTUSD", "ETHUSD"), first=200)
        assert self.deliver(again, second).wait(DEADLINE_SECONDS)
        wait_until(lambda: again.is_empty, "everything is delivered")
        self.assert_all_arrived_in_order(bus, [*first, *second])


class ServerSinkContract(SinkContract):
    """What every sink with a server must do besides; the fixture `bus` is a `ServerUnderTest`."""

    SYMBOLS = ("XBTUSD", "ETHUSD")

    @pytest.fixture
    def server(self, bus: BusUnderTest) -> ServerUnderTest:
        assert isinstance(bus, ServerUnderTest)
        bus.hurry()
        return bus

    def test_client_that_hangs_while_it_connects_is_replaced(
        self, server: ServerUnderTest, bus: BusUnderTest, start: Start
    ) -> None:
        running, router = start(), bus.settings.router()
        before = make_events(router, 100, symbols=self.SYMBOLS)
        assert self.deliver(running, before).wait(DEADLINE_SECONDS)
        connections = server.proxy.connections_total
        server.proxy.pause()
        during = make_events(router, 100, symbols=self.SYMBOLS, first=100)
        delivered = self.deliver(running, during)
        wait_until(
            lambda: server.proxy.connections_total > connections, "a client connects into silence"
        )
        # It is silent for longer than a request may take.
        assert not delivered.wait(3 * REQUEST_MS / 1000)
        bus.bring_back()
        assert delivered.wait(DEADLINE_SECONDS)
        self.assert_all_arrived_in_order(bus, [*before, *during])
        self.assert_adds_up(running, 200)

    def test_connection_that_leads_nowhere_is_given_up(
        self, server: ServerUnderTest, bus: BusUnderTest, start: Start
    ) -> None:
        running, router = start(), bus.settings.router()
        before = make_events(router, 100, symbols=self.SYMBOLS)
        assert self.deliver(running, before).wait(DEADLINE_SECONDS)
        server.proxy.forget()
        after = make_events(router, 100, symbols=self.SYMBOLS, first=100)
        assert self.deliver(running, after).wait(DEADLINE_SECONDS)
        self.assert_all_arrived_in_order(bus, [*before, *after])
        self.assert_adds_up(running, 200)


def _may_retry(result: object) -> bool:
    outcome = getattr(result, "outcome", None)
    return outcome in (Outcome.TRANSIENT, Outcome.AMBIGUOUS)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])
