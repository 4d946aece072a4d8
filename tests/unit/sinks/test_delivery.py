"""What becomes of events, outcome by outcome."""

import gc
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tardis_machine.bronze.series import Series
from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.buses.settings import MIN_SPOOL_BYTES
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.dead_letters.files import letter_files, read_letters
from tardis_machine.sinks.delivery.encoding import LogEncoding
from tardis_machine.sinks.delivery.window import MAX_EVENTS
from tardis_machine.sinks.memory import Judge, MemorySink
from tardis_machine.sinks.reporting.status import BusState
from tests.contract.test_memory_sink import MemorySettings
from tests.unit.sinks.delivery import SECONDS, deliver, events, ids, offer, running, wait_until

FAILS = Result(Outcome.TRANSIENT, "refused")
NO_DESTINATION = Result(Outcome.BAD_DESTINATION, "no_destination", "no topic")
BY_SYMBOL = MemorySettings(stream_template="bronze.{{symbol}}")


def fails(symbol: str, result: Result = FAILS) -> Judge:
    return lambda event: result if event.series.symbol == symbol else None


def test_only_what_failed_is_sent_again(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judges.append(fails("ETHUSD"))
    with running(sink, tmp_path) as bus:
        offered = events(30, "XBTUSD", "ETHUSD", "SOLUSD")
        deliver(bus, offered)
    assert Counter(ids(sink.stored)) == Counter(ids(offered))
    sent = Counter(event.series.symbol for batch in sink.batches for event in batch)
    assert sent == {"XBTUSD": 10, "SOLUSD": 10, "ETHUSD": 20}
    assert bus.meter.totals.retries == 10


def test_key_in_trouble_holds_up_no_other_and_keeps_its_order(tmp_path: Path) -> None:
    sink = MemorySink(max_batch_events=20)
    sink.judge = fails("ETHUSD")
    with running(sink, tmp_path) as bus:
        offered = events(400, "XBTUSD", "ETHUSD")
        done = offer(bus, offered)
        wait_until(lambda: len(ids(sink.stored, "XBTUSD")) == 200)
        assert ids(sink.stored, "ETHUSD") == []
        assert bus.lanes == 1
        sink.judge = None
        assert done.wait(SECONDS)
        assert bus.lanes == 0
    assert ids(sink.stored, "ETHUSD") == ids(offered, "ETHUSD")
    assert ids(sink.stored, "XBTUSD") == ids(offered, "XBTUSD")


def test_order_survives_random_failures_of_single_events(tmp_path: Path) -> None:
    sink = MemorySink(max_batch_events=7)
    seen: Counter[str] = Counter()

    def judge(event: Event) -> Result | None:
        seen[event.delivery_id] += 1
        number = int(event.delivery_id.rpartition("-")[2])
        return FAILS if seen[event.delivery_id] <= number % 4 else None

    sink.judge = judge
    with running(sink, tmp_path) as bus:
        offered = events(300, "XBTUSD", "ETHUSD", "SOLUSD")
        deliver(bus, offered)
    for symbol in ("XBTUSD", "ETHUSD", "SOLUSD"):
        assert ids(sink.stored, symbol) == ids(offered, symbol)


def test_without_ordering_a_failed_event_holds_up_no_later_one(tmp_path: Path) -> None:
    sink = MemorySink(max_batch_events=1)
    offered = events(3)
    first, *others = ids(offered)
    # It fails until the later ones are there.
    sink.judge = lambda event: (
        FAILS if event.delivery_id == first and len(sink.stored) < len(others) else None
    )
    with running(sink, tmp_path, ordering="none") as bus:
        deliver(bus, offered)
    assert ids(sink.stored) == [*others, first]


def test_missing_destination_parks_visibly_and_is_delivered_once_put_right(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = fails("ETHUSD", NO_DESTINATION)
    with running(sink, tmp_path, BY_SYMBOL) as bus:
        offered = events(20, "XBTUSD", "ETHUSD")
        done = offer(bus, offered)
        wait_until(lambda: bus.status().state is BusState.DEGRADED and bus.status().parked == 10)
        wait_until(lambda: bus.status().queued == 0)
        assert bus.status().last_error == "no_destination: no topic"
        assert bus.status().totals.dead == 0
        sink.judge = None
        assert done.wait(SECONDS)
        wait_until(lambda: bus.status().state is BusState.UP)
    assert ids(sink.stored, "ETHUSD") == ids(offered, "ETHUSD")


def test_event_with_unknown_outcome_is_sent_again_with_the_same_id(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judges.append(lambda event: Result(Outcome.AMBIGUOUS, "timeout"))
    with running(sink, tmp_path) as bus:
        (event,) = offered = events(1)
        deliver(bus, offered)
    assert ids(sink.stored) == [event.delivery_id] * 2
    assert sink.stored[0].data == sink.stored[1].data
    assert bus.meter.totals.redelivered == 1


def test_lost_client_is_opened_again_and_its_events_come_first(tmp_path: Path) -> None:
    sink = MemorySink(max_batch_events=10)
    sink.judges.append(lambda event: Result(Outcome.CLIENT_LOST, "fatal"))
    with running(sink, tmp_path) as bus:
        offered = events(50, "XBTUSD", "ETHUSD")
        deliver(bus, offered)
    assert sink.opened == 2
    assert ids(sink.stored) == ids(offered)


def test_sink_that_raises_is_opened_again(tmp_path: Path) -> None:
    sink = MemorySink()

    def burst(event: Event) -> Result:
        raise OSError("broken")

    sink.judges.append(burst)
    with running(sink, tmp_path) as bus:
        offered = events(5)
        deliver(bus, offered)
    assert sink.opened == 2
    assert ids(sink.stored) == ids(offered)


def test_bus_that_stays_down_is_probed_with_single_events(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = lambda event: Result(Outcome.CLIENT_LOST, "down")
    with running(sink, tmp_path) as bus:
        done = offer(bus, events(100))
        wait_until(lambda: sink.batches and len(sink.batches[-1]) == 1)
        sink.judge = None
        assert done.wait(SECONDS)
    assert len(sink.batches[0]) == 100


class PickySink(MemorySink):
    """Refuses a whole batch when one event in it is bad, and does not say which."""

    def __init__(self, bad: set[str]) -> None:
        super().__init__()
        self._bad = bad

    def send(self, events: Sequence[Event]) -> Sequence[Result]:
        self.batches.append(list(events))
        if any(event.delivery_id in self._bad for event in events):
            return [Result(Outcome.BAD_RECORD, "invalid", is_shared=True)] * len(events)
        self.stored.extend(events)
        return [OK] * len(events)


@pytest.mark.parametrize("bad", [{0}, {63}, {17, 18, 40}])
def test_culprit_of_a_refused_batch_is_found_by_halves(tmp_path: Path, bad: set[int]) -> None:
    offered = events(64, "XBTUSD", "ETHUSD")
    culprits = {offered[number].delivery_id for number in bad}
    sink = PickySink(culprits)
    with running(sink, tmp_path) as bus:
        deliver(bus, offered)
    good = [event for event in offered if event.delivery_id not in culprits]
    assert ids(sink.stored) == ids(good)
    assert bus.last_status.totals.dead == len(bad)
    assert len(sink.batches) <= 1 + len(bad) * 2 * 7


def test_refused_event_becomes_a_readable_dead_letter(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judges.append(fails("ETHUSD", Result(Outcome.BAD_RECORD, "too_large", "9 MB")))
    with running(sink, tmp_path) as bus:
        offered = events(3, "XBTUSD", "ETHUSD")
        deliver(bus, offered)
    (letter,) = read_letters(*letter_files(tmp_path / "memory"))
    assert (letter.reason, letter.error, letter.bus) == ("too_large", "9 MB", "memory")
    assert (letter.target, letter.key) == ("bronze", "bitmex|ETHUSD|trade")
    assert letter.envelope == offered[1].data
    assert letter.headers["deliveryId"] == offered[1].delivery_id
    assert bus.last_status.totals.dead == 1


def test_event_out_of_attempts_becomes_a_dead_letter_and_its_lane_goes_on(tmp_path: Path) -> None:
    sink = MemorySink()
    (first, *_) = offered = events(3)
    sink.judge = lambda event: FAILS if event.delivery_id == first.delivery_id else None
    with running(sink, tmp_path, retry_max_attempts=3) as bus:
        deliver(bus, offered)
    (letter,) = read_letters(*letter_files(tmp_path / "memory"))
    assert (letter.reason, letter.attempts) == ("retries_exhausted", 3)
    assert ids(sink.stored) == ids(offered[1:])


def test_event_that_fails_for_too_long_becomes_a_dead_letter(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = lambda event: FAILS
    with running(sink, tmp_path, retry_max_age_ms=50) as bus:
        deliver(bus, events(2))
    assert bus.last_status.totals.dead == 2


def test_dead_letter_goes_to_its_destination_with_the_reason_as_headers(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = lambda event: (
        Result(Outcome.BAD_RECORD, "invalid") if event.route.destination == "bronze" else None
    )
    settings = MemorySettings(dead_letter_target="dead")
    with running(sink, tmp_path, settings, dead_letter="target") as bus:
        (event,) = offered = events(1)
        deliver(bus, offered)
    (stored,) = sink.stored
    assert (stored.route.destination, stored.data) == ("dead", event.data)
    assert stored.series.meta["deadLetterReason"] == "invalid"
    assert letter_files(tmp_path / "memory") == []
    assert bus.last_status.totals.dead == 1


def test_dead_letter_that_its_destination_refuses_is_kept_in_a_file(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = lambda event: Result(Outcome.BAD_RECORD, "invalid")
    settings = MemorySettings(dead_letter_target="dead")
    with running(sink, tmp_path, settings, dead_letter="target") as bus:
        deliver(bus, events(1))
    assert len(list(read_letters(*letter_files(tmp_path / "memory")))) == 1


def test_dropped_dead_letter_is_counted_as_lost(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = lambda event: Result(Outcome.BAD_RECORD, "invalid")
    with running(sink, tmp_path, dead_letter="drop") as bus:
        deliver(bus, events(2))
    assert (bus.last_status.totals.dead, bus.last_status.totals.dropped) == (0, 2)


def test_duplicate_that_the_bus_knew_is_counted_and_released(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = lambda event: Result(Outcome.OK, is_duplicate=True)
    with running(sink, tmp_path) as bus:
        deliver(bus, events(2))
    assert (bus.meter.totals.duplicates, bus.last_status.totals.published) == (2, 2)


def test_bus_that_is_down_at_the_start_connects_later(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.is_down = True
    with running(sink, tmp_path) as bus:
        done = offer(bus, events(10))
        wait_until(lambda: bus.status().last_error)
        assert bus.status().state is BusState.CONNECTING
        assert not bus.wait_until_open(0)
        sink.is_down = False
        assert done.wait(SECONDS)
        wait_until(lambda: bus.status().state is BusState.UP)
        assert bus.status().last_error is None


def test_drain_ignores_the_delay_of_batches_and_the_pause_of_lanes(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.max_batch_delay_seconds = 60.0
    sink.judges.append(fails("ETHUSD", Result(Outcome.TRANSIENT, "busy", retry_after_seconds=60.0)))
    with running(sink, tmp_path) as bus:
        done = offer(bus, events(4, "XBTUSD", "ETHUSD"))
        bus.drain()
        wait_until(lambda: sink.batches)
        bus.drain()
        bus.finish()
        assert done.wait(SECONDS)
        bus.wait_until_drained()
    assert sink.is_closed


def test_missing_destination_holds_up_no_other_for_however_long(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = fails("ETHUSD", NO_DESTINATION)
    offered = events(4000, "XBTUSD", "ETHUSD")
    with running(sink, tmp_path, BY_SYMBOL) as bus:
        done = offer(bus, offered)
        wait_until(lambda: len(ids(sink.stored, "XBTUSD")) == 2000)
        wait_until(lambda: bus.status().parked == 2000 and bus.status().queued == 0)
        assert ids(sink.stored, "ETHUSD") == []
        sink.judge = None
        assert done.wait(SECONDS)
        assert bus.status().parked == 0
        assert list(tmp_path.rglob("*.parked/*/*.chunks")) == []
    assert ids(sink.stored, "ETHUSD") == ids(offered, "ETHUSD")


def test_parked_events_are_delivered_before_newer_ones_after_the_next_start(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = fails("ETHUSD", NO_DESTINATION)
    offered = events(1000, "XBTUSD", "ETHUSD")
    with running(sink, tmp_path, BY_SYMBOL) as bus:
        offer(bus, offered)
        wait_until(lambda: bus.status().parked == 500)
    sink.judge = None
    later = events(100, "ETHUSD", first=1000)
    with running(sink, tmp_path, BY_SYMBOL, log=bus.log) as again:
        deliver(again, later)
    assert ids(sink.stored, "ETHUSD") == ids(offered, "ETHUSD") + ids(later)


def test_parked_events_go_where_the_settings_say_when_they_are_sent(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = fails("ETHUSD", NO_DESTINATION)
    offered = events(20, "XBTUSD", "ETHUSD")
    with running(sink, tmp_path, BY_SYMBOL) as bus:
        offer(bus, offered)
        wait_until(lambda: bus.status().parked == 10)
    corrected = MemorySettings(stream_template="other.{{symbol}}")
    sink.judge = lambda event: NO_DESTINATION if event.route.destination[:5] != "other" else None
    later = events(10, "ETHUSD", first=20)
    with running(sink, tmp_path, corrected, log=bus.log) as again:
        deliver(again, later)
    assert ids(sink.stored, "ETHUSD") == ids(offered, "ETHUSD") + ids(later)
    ether = [event for event in sink.stored if event.series.symbol == "ETHUSD"]
    assert {event.route.destination for event in ether} == {"other.ETHUSD"}


def test_stuck_destination_is_parked_when_it_would_hold_up_others(tmp_path: Path) -> None:
    sink = MemorySink(max_batch_events=5000)
    sink.judge = fails("ETHUSD")
    offered = events(3 * MAX_EVENTS // 2, "ETHUSD", "ETHUSD", "ETHUSD", "XBTUSD")
    with running(sink, tmp_path, BY_SYMBOL) as bus:
        done = offer(bus, offered)
        wait_until(lambda: ids(sink.stored, "XBTUSD") == ids(offered, "XBTUSD"))
        assert bus.status().parked > 0
        sink.judge = None
        assert done.wait(SECONDS)
    assert ids(sink.stored, "ETHUSD") == ids(offered, "ETHUSD")
    assert bus.last_status.totals.dropped == 0


def test_only_destination_waits_in_the_log_when_some_of_its_keys_are_stuck(tmp_path: Path) -> None:
    sink = MemorySink(max_batch_events=5000)
    sink.judge = fails("ETHUSD")
    offered = events(3 * MAX_EVENTS // 2, "ETHUSD", "ETHUSD", "ETHUSD", "XBTUSD")
    with running(sink, tmp_path, parked_max_bytes=100_000) as bus:
        done = offer(bus, offered)
        wait_until(lambda: len(sink.stored) >= MAX_EVENTS // 4)
        tried = len(sink.batches)
        # By then the window is full of the others.
        wait_until(lambda: len(sink.batches) >= tried + 10 or bus.status().parked)
        sink.judge = None
        assert done.wait(SECONDS)
    assert sorted(ids(sink.stored)) == sorted(ids(offered))
    assert ids(sink.stored, "ETHUSD") == ids(offered, "ETHUSD")
    assert bus.last_status.totals.dead == 0


def test_parked_events_beyond_their_bound_become_dead_letters(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = fails("ETHUSD", NO_DESTINATION)
    offered = events(2000, "ETHUSD", "XBTUSD")
    with running(sink, tmp_path, BY_SYMBOL, parked_max_bytes=100_000) as bus:
        offer(bus, offered)
        wait_until(lambda: bus.status().queued == 0)
        parked, dead = bus.status().parked, bus.status().totals.dead
        assert (parked > 0, dead > 0, parked + dead) == (True, True, 1000)
        sink.judge = None
        wait_until(lambda: bus.status().parked == 0)
    assert ids(sink.stored, "XBTUSD") == ids(offered, "XBTUSD")
    letters = [each for file in letter_files(tmp_path / "memory") for each in read_letters(file)]
    assert {letter.reason for letter in letters} == {"parked_full"}
    assert len(letters) == dead


def test_destinations_that_recover_wait_in_the_log_when_parking_is_full(tmp_path: Path) -> None:
    sink = MemorySink(max_batch_events=100)
    missing = ("ETHUSD", "SOLUSD", "ADAUSD", "XRPUSD")
    sink.judge = lambda event: NO_DESTINATION if event.series.symbol in missing else None
    offered = events(500, "XBTUSD", *missing)
    with running(sink, tmp_path, BY_SYMBOL, parked_max_bytes=300_000) as bus:
        offer(bus, offered)
        wait_until(lambda: bus.status().parked == 400)
        assert bus.status().totals.dead == 0
        # Each takes a few, so all are known to work again before more comes than can be parked.
        taken: Counter[str] = Counter()

        def take_a_few(event: Event) -> Result | None:
            taken[event.series.symbol] += 1
            return None if taken[event.series.symbol] <= 3 else FAILS

        sink.judge = take_a_few
        wait_until(lambda: all(taken[symbol] > 3 for symbol in missing))
        later = events(3000, *missing, first=500)
        done = offer(bus, later)
        wait_until(lambda: bus.lanes > 0)
        sink.judge = None
        assert done.wait(SECONDS)
        wait_until(lambda: bus.status().parked == 0)
        assert bus.lanes == 0
    assert bus.last_status.totals.dead == 0
    for symbol in ("XBTUSD", *missing):
        assert ids(sink.stored, symbol) == ids(offered, symbol) + ids(later, symbol)


def test_oldest_events_beyond_the_bound_are_dropped_and_counted(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.is_down = True
    with running(sink, tmp_path, spool_max_bytes=MIN_SPOOL_BYTES) as bus:
        total = 0
        while not bus.status().totals.dropped:
            offer(bus, events(10_000, first=total))
            total += 10_000
        sink.is_down = False
        wait_until(lambda: bus.is_empty)
        totals = bus.status().totals
        assert totals.accepted == total
        assert totals.published + totals.dropped == total
    stored = ids(sink.stored)
    places = {name: place for place, name in enumerate(ids(events(total)))}
    assert stored == sorted(set(stored), key=places.__getitem__)
    assert stored[0] != "tester-boot-0"
    assert stored[-1] == f"tester-boot-{total - 1}"


def test_nothing_is_kept_of_events_that_waited_in_the_log(tmp_path: Path) -> None:
    sink = MemorySink(max_batch_events=20)
    sink.is_down = True
    others = living_series()
    with running(sink, tmp_path) as bus:
        for request in range(20):
            offer(bus, events(50, first=50 * request))
        wait_until(lambda: bus.status().queued == 1000)
        sink.is_down = False
        wait_until(lambda: bus.is_empty)
        assert len(sink.stored) == 1000
        sink.stored.clear()
        sink.batches.clear()
        wait_until(lambda: living_series() <= others)


def living_series() -> set[int]:
    gc.collect()
    return {id(each) for each in gc.get_objects() if isinstance(each, Series)}


def test_log_of_a_dead_writer_is_awaited_while_its_old_reader_ends(tmp_path: Path) -> None:
    orphan_sink, sink = MemorySink(), MemorySink()
    orphan_sink.is_down = True
    old, new = events(100), events(100, first=100)
    with running(sink, tmp_path) as bus:
        with running(orphan_sink, tmp_path) as orphan:
            offer(orphan, old)
            orphan.log.close()
            encoding = LogEncoding(orphan.log.directory, bus.cases, 1)
            read = partial(bus.read, orphan.log.directory, encoding, is_own=False)
            assert not read(comes_first=True)
            offer(bus, new)
            wait_until(lambda: bus.status().queued == 100)
        time.sleep(0.1)
        assert sink.stored == []
        assert read()
        wait_until(lambda: len(sink.stored) == 200)
    assert ids(sink.stored) == ids(old) + ids(new)
