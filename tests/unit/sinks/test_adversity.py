"""What the first design of delivery did not survive, on real files with a bus in memory."""

import multiprocessing
import resource
import threading
import time
import tracemalloc
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tardis_machine.app.publishing.process import end_if_stuck
from tardis_machine.buses.files.log import pack_headers, pack_record
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.buses.settings import MIN_SPOOL_BYTES
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.delivery.encoding import LogEncoding
from tardis_machine.sinks.delivery.sender import FAILED_EXIT
from tardis_machine.sinks.log_writer import LogWriter
from tardis_machine.sinks.memory import MemorySink
from tardis_machine.sinks.publisher.redrive import find_redrives
from tardis_machine.sinks.storage.directory import LogReader
from tardis_machine.telemetry.metrics import Metrics
from tests.contract.event_logs import EventLog, now_us
from tests.contract.sinks import enlarged
from tests.contract.test_memory_sink import MemorySettings
from tests.unit.sinks.delivery import (
    MISSING,
    SECONDS,
    LoggedBus,
    delivery,
    events,
    ids,
    make_bus,
    missing_but,
    offer,
    parked_after_a_step,
    running,
    stepping,
    wait_until,
)
from tests.unit.sinks.storage.test_log import file_size_limit, no_more_files

LOOK_SECONDS = 5.0
BUSY = Result(Outcome.TRANSIENT, Reason.THROTTLED, "busy")
READER = LogReader("memory", "")
BY_SYMBOL = MemorySettings(stream_template="bronze.{{symbol}}")


def test_a_thousand_missing_destinations_hold_up_no_other(tmp_path: Path) -> None:
    symbols = [f"S{number}" for number in range(1000)]
    tried: set[str] = set()

    def judge(event: Event) -> Result | None:
        tried.add(event.series.symbol)
        return None if event.series.symbol == "XBTUSD" else MISSING

    sink = MemorySink()
    sink.judge = judge
    lost = [enlarged(event, 2048) for event in events(10_000, *symbols)]
    with running(sink, tmp_path, BY_SYMBOL) as bus:
        # While they are parked, the first of them are tried again all the time.
        offer(bus, lost)
        wait_until(lambda: bus.status().queued == 0)
        before = bytes_read()
        tried.clear()
        wait_until(lambda: tried.issuperset(symbols))
        # Once, every attempt read what was parked of all.
        assert bytes_read() - before < 500e6
        healthy = events(500, "XBTUSD")
        offer(bus, healthy)
        wait_until(lambda: ids(sink.stored) == ids(healthy))
        assert bus.status().parked == 10_000
        batches = len(sink.batches)
        sink.judge = None
        wait_until(lambda: bus.is_empty)
    assert len(sink.stored) == 10_500
    # What was parked in small pieces is sent in larger ones.
    assert len(sink.batches) - batches < 5000


def bytes_read() -> int:
    """Return how many bytes this process has read from files."""
    return int(psutil.Process().io_counters().read_chars)


def park_with_few_files(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    log = EventLog(folder, READER)
    bus = stepping(missing_but("XBTUSD"), folder, BY_SYMBOL, log)
    log.append(events(900, *[f"S{number}" for number in range(300)]))
    wait_until(lambda: parked_after_a_step(bus) == 900)
    bus.close()
    sink = MemorySink()
    bus = stepping(sink, folder, BY_SYMBOL, log)
    wait_until(lambda: parked_after_a_step(bus) == 0)
    for number in range(300):
        expected = [f"tester-boot-{number + start}" for start in (0, 300, 600)]
        assert ids(sink.stored, f"S{number}") == expected


def test_missing_destinations_keep_few_files_open(tmp_path: Path) -> None:
    # A process of its own: nobody knows how many files this one has open.
    process = multiprocessing.get_context("spawn").Process(
        target=park_with_few_files, args=(tmp_path,)
    )
    process.start()
    process.join(SECONDS)
    assert process.exitcode == 0


def test_logs_of_dead_writers_are_read_one_after_another(tmp_path: Path) -> None:
    written = events(900)
    logs = [EventLog(tmp_path, READER) for _ in range(3)]
    for number, log in enumerate(logs):
        log.append(written[number * 300 : (number + 1) * 300])
        log.close()
    sink = MemorySink(max_batch_events=50)
    bus = make_bus(sink, tmp_path)
    for log in (logs[1], logs[0], logs[2]):
        encoding = LogEncoding(log.directory, bus.cases, 1)
        assert bus.read(log.directory, encoding, is_own=False, comes_first=True)
    bus.start()
    wait_until(lambda: len(sink.stored) == 900)
    bus.stop(SECONDS)
    bus.close()
    assert ids(sink.stored) == ids(written)


def test_few_events_that_cannot_be_delivered_do_not_fill_the_log(tmp_path: Path) -> None:
    sink = missing_but("XBTUSD")
    with running(sink, tmp_path, BY_SYMBOL, spool_max_bytes=0) as bus:
        offer(bus, events(11, "ETHUSD"))
        large = [enlarged(event, 1 << 20) for event in events(24, "XBTUSD")]
        assert len(large) << 20 > MIN_SPOOL_BYTES
        for event in large:
            offer(bus, [event])
            wait_until(lambda event=event: event.delivery_id in ids(sink.stored))
        # What is stored is settled a moment later.
        wait_until(lambda: bus.status().queued == 0)
        status = bus.status()
    assert (status.parked, status.totals.dropped) == (11, 0)


def test_parked_events_that_are_not_wanted_any_more_are_left_out(tmp_path: Path) -> None:
    log = EventLog(tmp_path, READER)
    before = stepping(missing_but("XBTUSD"), tmp_path, BY_SYMBOL, log)
    log.append(events(5, "ETHUSD"))
    before.step()
    assert before.status().parked == 5
    before.close()
    without = replace(BY_SYMBOL, exclude_payloads=("trade",))
    after = stepping(MemorySink(), tmp_path, without, log)
    after.step()
    assert after.is_empty
    assert after.status().totals.filtered == 5
    after.close()
    log.close()


def test_passing_lack_of_descriptors_costs_nothing(tmp_path: Path) -> None:
    sink = missing_but("XBTUSD")
    log = EventLog(tmp_path, READER)
    bus = stepping(sink, tmp_path, BY_SYMBOL, log)
    offered = events(40, "XBTUSD", "ETHUSD")
    log.append(offered)
    with no_more_files():
        for _ in range(3):
            bus.step()
    bus.step()
    sink.judge = None
    with no_more_files():
        for _ in range(3):
            bus.step()
    wait_until(lambda: drained(bus))
    assert sorted(ids(sink.stored)) == sorted(ids(offered))
    bus.close()
    log.close()


def test_counts_of_a_destination_outlive_a_lack_of_descriptors(tmp_path: Path) -> None:
    sink = missing_but("XBTUSD")
    log = EventLog(tmp_path, READER)
    bus = stepping(sink, tmp_path, BY_SYMBOL, log)
    log.append(events(10, "ETHUSD"))
    wait_until(lambda: parked_after_a_step(bus) == 10)
    sink.judge = None
    wait_until(lambda: drained(bus))
    assert bus.status().totals.published == 10
    with ExitStack() as shortage:

        def judge(event: Event) -> Result:
            # From now on, before the event is parked.
            shortage.enter_context(no_more_files())
            return MISSING

        sink.judges.append(judge)
        log.append(events(1, "ETHUSD", first=10))
        bus.step()
    assert bus.status().totals.published == 10
    bus.close()
    log.close()


def drained(bus: LoggedBus) -> bool:
    bus.drain()
    bus.step()
    return bus.is_empty


def test_age_of_an_event_counts_from_when_it_was_written(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = lambda event: BUSY
    log = EventLog(tmp_path, READER)
    log.append(events(3))
    time.sleep(0.3)
    with running(sink, tmp_path, log=log, retry_max_age_ms=250) as bus:
        wait_until(lambda: bus.status().totals.dead == 3)
    # Nothing was tried twice: it was too old when it failed first.
    assert sum(map(len, sink.batches)) == 3


class BrokenSink(MemorySink):
    """Raises what no sink may."""

    def idle(self, seconds: float) -> None:
        raise RuntimeError("unexpected")


def run_broken(folder: Path) -> None:
    bus = make_bus(BrokenSink(), folder)
    bus.start()
    bus.wait_until_drained()


def test_unexpected_error_of_a_bus_ends_the_process(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=run_broken, args=(tmp_path,))
    process.start()
    process.join(SECONDS)
    assert process.exitcode == FAILED_EXIT


def test_stream_is_sent_again_piece_by_piece(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, segment_bytes=8 << 20)
    record = pack_record(b"bronze", b"key", pack_headers({"eventId": "e"}), b"x" * 100_000)
    for _ in range(40):
        writer.append(record * 10)
    writer.close()
    del record
    tracemalloc.start()
    try:
        size = sum(len(redrive.records) for redrive in find_redrives(tmp_path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size > 40_000_000
    assert peak < 10_000_000


def run_stuck(folder: Path, call_seconds: float) -> None:
    """Let a bus hang in a call, and look after it as the publisher process does."""
    sink = MemorySink()
    sink.judge = lambda _: threading.Event().wait() and None
    metrics = Metrics().event_bus
    log = EventLog(folder, READER)
    bus = LoggedBus(
        *(MemorySettings(), delivery(), sink, folder, metrics, now_us), call_seconds=call_seconds
    )
    log.read_by(bus)
    log.append(events(10))
    bus.start()
    deadline = time.monotonic() + LOOK_SECONDS
    while time.monotonic() < deadline:
        end_if_stuck([bus])
        time.sleep(0.01)


@pytest.mark.parametrize(("call_seconds", "exit_code"), [(0.05, FAILED_EXIT), (600.0, 0)])
def test_call_that_does_not_return_ends_the_process(
    call_seconds: float, exit_code: int, tmp_path: Path
) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=run_stuck, args=(tmp_path, call_seconds)
    )
    process.start()
    process.join(SECONDS)
    assert process.exitcode == exit_code


def test_log_that_could_not_be_opened_is_read_as_soon_as_it_can_be(tmp_path: Path) -> None:
    sink = MemorySink()
    bus = make_bus(sink, tmp_path)
    other = EventLog(tmp_path, bus.reader)
    with file_size_limit(0), pytest.raises(OSError, match="too large"):
        other.read_by(bus)
    # The lock of the first attempt is not in the way of the second.
    other.read_by(bus)
    other.append(events(10))
    bus.start()
    wait_until(lambda: len(sink.stored) == 10)
    bus.stop(5)
    bus.close()
