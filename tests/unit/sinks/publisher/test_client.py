"""The writing side of publishing: whom it waits for, and what it loses."""

import asyncio
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.settings import MIN_SPOOL_BYTES
from tardis_machine.model.control import Disconnect
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import Record
from tardis_machine.model.time import us_text
from tardis_machine.sinks.delivery.encoding import LogEncoder, LogEncoding
from tardis_machine.sinks.memory import MemorySink
from tardis_machine.sinks.publisher.address import PublisherAddress
from tardis_machine.sinks.publisher.client import PublisherClient
from tardis_machine.sinks.publisher.supervision import (
    UNSTABLE_SECONDS,
    Supervision,
    write_supervision,
)
from tardis_machine.sinks.reporting.status import (
    CONNECTING,
    OUT_OF_REACH_SECONDS,
    BusState,
    Status,
    Totals,
)
from tardis_machine.sinks.storage.chunks import Flags
from tardis_machine.sinks.storage.directory import LogDirectory, LogReader, find_logs
from tardis_machine.sinks.storage.quarantine import list_quarantine
from tardis_machine.sinks.storage.reader import Chunk
from tardis_machine.telemetry.metrics import Metrics
from tests.contract.event_logs import now_us
from tests.contract.test_memory_sink import MemorySettings
from tests.unit.bronze.records import LOCAL_US, trade
from tests.unit.sinks.delivery import LoggedBus, delivery, wait_until
from tests.unit.sinks.storage.logs import read_all
from tests.unit.sinks.storage.test_log import file_size_limit

BLOCK_MS = 300
BOUND_BYTES = 20_000
ROOM_BYTES = 4096
READER = LogReader("memory", "")


class Setup:
    """A client with a log of its own, and a bus that may read it."""

    def __init__(self, folder: Path, client: PublisherClient) -> None:
        self._folder = folder
        self.client = client
        self.waits: list[tuple[str, float]] = []

    @property
    def log(self) -> LogDirectory:
        (found,) = find_logs(self._folder)
        return found

    @contextmanager
    def bus(self, sink: MemorySink, **options: Any) -> Iterator[LoggedBus]:
        """Let a bus read the log while the body runs."""
        made = LoggedBus(
            MemorySettings(), delivery(**options), sink, self._folder, Metrics().event_bus, now_us
        )
        assert made.read(self.log, LogEncoding(self.log, made.cases, 1), is_own=True)
        made.start()
        try:
            yield made
        finally:
            made.stop(5)
            made.close()


@contextmanager
def client_for(
    folder: Path, bound_bytes: int = BOUND_BYTES, required: Collection[str] = ()
) -> Iterator[Setup]:
    address = PublisherAddress(folder, folder, "test")
    settings = delivery(replay_max_block_ms=BLOCK_MS, fsync="off")
    waits: list[tuple[str, float]] = []
    client = PublisherClient(
        address,
        settings,
        "tester",
        {READER: bound_bytes},
        required=required,
        on_waited=lambda bus, seconds: waits.append((bus, seconds)),
    )
    made = Setup(folder, client)
    made.waits = waits
    try:
        yield made
    finally:
        client.close()


def lines(count: int, first: int = 0) -> bytes:
    made: list[Record] = [
        trade(id=str(number), local_timestamp=us_text(LOCAL_US + number))
        for number in range(first, first + count)
    ]
    return encode_lines(made)


async def test_replay_waits_once_for_a_bus_at_its_bound(tmp_path: Path) -> None:
    with client_for(tmp_path) as made:
        stream = made.client.stream(Origin.REPLAY, {})
        await stream.publish(lines(200))
        started = time.monotonic()
        await stream.publish(lines(10))
        assert time.monotonic() - started >= BLOCK_MS / 1000
        assert [bus for bus, _ in made.waits] == ["memory"]
        for _ in range(20):
            await stream.publish(lines(10))
        assert len(made.waits) == 1
        # After the outage it may wait for the next one.
        with made.bus(MemorySink()) as bus:
            wait_until(lambda: bus.status().queued == 0)
        await stream.publish(lines(200))
        await stream.publish(lines(10))
        assert len(made.waits) == 2


async def test_job_waits_until_there_is_room(tmp_path: Path) -> None:
    with client_for(tmp_path) as made:
        stream = made.client.stream(Origin.REPLAY, {}, waits=True)
        await stream.publish(lines(200))
        waiting = asyncio.create_task(stream.publish(lines(10)))
        await asyncio.sleep(3 * BLOCK_MS / 1000)
        assert not waiting.done()
        with made.bus(MemorySink()):
            async with asyncio.timeout(120):
                await waiting


async def test_live_feed_waits_for_nobody(tmp_path: Path) -> None:
    with client_for(tmp_path) as made:
        stream = made.client.stream(Origin.REALTIME, {})
        stream.publish_now(lines(200))
        stream.publish_now(lines(10))
        assert made.waits == []


async def test_what_a_full_disk_refuses_is_counted(tmp_path: Path) -> None:
    sink = MemorySink()
    with client_for(tmp_path, 10**9) as made:
        stream = made.client.stream(Origin.REPLAY, {})
        await stream.publish(lines(5))
        with file_size_limit(8192):
            await stream.publish(lines(100, 5))
            stream.publish_now(lines(100, 105))
        await stream.publish(lines(5, 205))
        with made.bus(sink) as bus:
            wait_until(lambda: len(sink.stored) == 10 and bus.status().queued == 0)
            totals = bus.status().totals
    assert (totals.accepted, totals.published, totals.dropped) == (210, 10, 200)


async def test_line_that_is_no_record_is_lost_alone(tmp_path: Path) -> None:
    sink = MemorySink()
    with client_for(tmp_path) as made:
        stream = made.client.stream(Origin.REPLAY, {})
        await stream.publish(lines(2) + b'{"type":"nonsense"}\n' + lines(2, 2))
        with made.bus(sink) as bus:
            wait_until(lambda: bus.status().queued == 0)
            totals = bus.status().totals
    assert (totals.published, totals.dropped) == (4, 1)


async def test_control_events_outlive_a_backlog_at_its_bound(tmp_path: Path) -> None:
    sink = MemorySink()
    lost = Disconnect(exchange="bitmex", local_timestamp=us_text(LOCAL_US))
    with client_for(tmp_path, 10**9) as made:
        stream = made.client.stream(Origin.REALTIME, {})
        for _ in range(30):
            stream.publish_now(lines(4000) + encode_lines([lost]))
        with made.bus(sink, spool_max_bytes=MIN_SPOOL_BYTES) as bus:
            wait_until(lambda: bus.status().queued == bus.status().parked == 0)
            totals = bus.status().totals
    assert totals.dropped > 0
    assert totals.published + totals.dropped == 30 * 4001
    kept = [event for event in sink.stored if event.series.case == "disconnect"]
    assert len({event.delivery_id for event in kept}) == 30


async def test_chunk_with_an_unreadable_context_is_set_aside(tmp_path: Path) -> None:
    sink = MemorySink()
    with client_for(tmp_path) as made:
        stream = made.client.stream(Origin.REPLAY, {})
        await stream.publish(lines(2))
        await made.client.append(b"\xc1", lines(3), 3, Flags.NONE, waits=False)
        await stream.publish(lines(2, 2))
        with made.bus(sink) as bus:
            wait_until(lambda: bus.status().queued == 0)
            totals = bus.status().totals
    assert (totals.published, totals.quarantined) == (4, 3)
    (note,) = list_quarantine(tmp_path)
    assert "context cannot be decoded" in note.reason
    # Records of the same time have ordinals that go on behind it.
    assert len({event.event_id for event in sink.stored}) == 4


async def test_bus_that_lags_sends_the_same_bytes(tmp_path: Path) -> None:
    first, second = MemorySink(), MemorySink()
    with client_for(tmp_path, 10**9) as made:
        stream = made.client.stream(Origin.REPLAY, {})
        for number in range(40):
            await stream.publish(lines(50) + lines(50, number))
        with made.bus(first) as bus:
            wait_until(lambda: bus.status().queued == 0)
        made.log.position_path(READER).unlink()
        with made.bus(second) as bus:
            wait_until(lambda: bus.status().queued == 0)
    assert [(event.event_id, event.delivery_id, event.data) for event in first.stored] == [
        (event.event_id, event.delivery_id, event.data) for event in second.stored
    ]
    assert len({event.event_id for event in first.stored}) == 40 * 100


def test_ended_publisher_is_out_of_reach_with_the_counts_it_had(tmp_path: Path) -> None:
    with client_for(tmp_path, required=["memory"]) as made:
        assert made.client.status.buses["memory"].state is BusState.CONNECTING
        up = replace(CONNECTING, state=BusState.UP, queued=7, totals=Totals(accepted=7))
        ended_at = time.time() - OUT_OF_REACH_SECONDS - 1
        file = PublisherAddress(tmp_path, tmp_path, "test").status
        file.make(ROOM_BYTES)
        file.write(msgspec.msgpack.encode(Status({"memory": up}, b"counts", written_at=ended_at)))
        wait_until(lambda: made.client.status.buses["memory"].queued == 7)
        status = made.client.status
        assert status.buses["memory"].state is BusState.CONNECTING
        assert status.metrics == b"counts"
        assert "no status from the publisher process" in (status.buses["memory"].last_error or "")
        assert made.client.has_failed


def test_required_bus_fails_while_its_publisher_is_down_or_unstable(tmp_path: Path) -> None:
    file = PublisherAddress(tmp_path, tmp_path, "test").supervision
    file.make(ROOM_BYTES)
    now = time.time()
    with client_for(tmp_path, required=["memory"]) as made:
        assert not made.client.has_failed
        once = Supervision().after_death(now)
        write_supervision(file, once)
        assert made.client.has_failed
        write_supervision(file, once.after_start())
        assert not made.client.has_failed
        often = Supervision(deaths=(now - 100, now - 50, now))
        write_supervision(file, often)
        assert made.client.has_failed
        wait_until(lambda: "died 3 times" in (made.client.status.buses["memory"].last_error or ""))
        write_supervision(file, Supervision(deaths=(now - 2 * UNSTABLE_SECONDS, now - 50, now)))
        assert not made.client.has_failed


def test_bus_that_is_not_required_does_not_fail_with_its_publisher(tmp_path: Path) -> None:
    file = PublisherAddress(tmp_path, tmp_path, "test").supervision
    file.make(ROOM_BYTES)
    write_supervision(file, Supervision().after_death(time.time()))
    with client_for(tmp_path) as made:
        assert not made.client.has_failed


async def test_bus_needs_no_room_on_a_full_disk_to_begin(tmp_path: Path) -> None:
    sink = MemorySink()
    with client_for(tmp_path) as made:
        await made.client.stream(Origin.REPLAY, {}).publish(lines(10))
        with file_size_limit(0), made.bus(sink):
            wait_until(lambda: len(sink.stored) == 10)


async def test_counts_before_a_segment_are_saved_once_the_disk_has_room(tmp_path: Path) -> None:
    with client_for(tmp_path) as made:
        stream = made.client.stream(Origin.REPLAY, {})
        for first in (0, 10):
            await stream.publish(lines(10, first))
        chunks = [each for each in read_all(made.log.path) if isinstance(each, Chunk)]
        encoder = LogEncoder(made.log, frozenset(PayloadCase))
        with file_size_limit(0):
            encoder.encode(chunks[0])
        assert not list(made.log.path.glob("*.ordinals"))
        encoder.encode(chunks[1])
        (saved,) = made.log.path.glob("*.ordinals")
        # Those before the first chunk, not those of now.
        assert msgspec.msgpack.decode(saved.read_bytes()) == {}
