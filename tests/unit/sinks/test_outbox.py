"""What a full outbox does, by policy; nothing is sent here."""

from pathlib import Path
from typing import Any

import pytest

from tardis_machine.sinks.fifo import Batch, bytes_of
from tardis_machine.sinks.memory import MemorySink
from tardis_machine.sinks.outbox import Outbox
from tardis_machine.sinks.tickets import Ticket
from tests.unit.sinks.delivery import events, ids, make_bus
from tests.unit.sinks.test_spool import after_kill, disconnect

MIB = 1 << 20


class Settled:
    """Counts settled events."""

    def __init__(self, count: int) -> None:
        self.is_done = False
        self.ticket = Ticket(self._finish, count)
        self.ticket.complete()

    def _finish(self) -> None:
        self.is_done = True


def open_outbox(folder: Path, **options: Any) -> Any:
    return make_bus(MemorySink(), folder, **options)


def take(outbox: Outbox, max_events: int = 1000, max_bytes: int = MIB) -> Batch:
    batch = outbox.next_batch(max_events, max_bytes, 0.0, 0.0)
    return batch or Batch([], [])


def taken_ids(outbox: Outbox) -> list[str]:
    """Take and release everything."""
    found: list[str] = []
    while batch := take(outbox):
        if not batch.events:
            break
        found += ids(batch.events)
        outbox.release(batch)
    return found


def test_batches_are_cut_by_events_and_bytes(tmp_path: Path) -> None:
    outbox = open_outbox(tmp_path).outbox
    offered = events(10)
    outbox.offer(offered[:6], Settled(6).ticket)
    outbox.offer(offered[6:], Settled(4).ticket)
    assert ids(take(outbox, max_events=4).events) == ids(offered[:4])
    size = bytes_of(offered[4:7])
    assert ids(take(outbox, max_bytes=size).events) == ids(offered[4:7])
    assert ids(take(outbox, max_bytes=1).events) == ids(offered[7:8])
    assert ids(take(outbox).events) == ids(offered[8:])
    assert take(outbox).events == []
    assert outbox.queued == 10


def test_batch_waits_for_more_events_until_its_delay_is_over(tmp_path: Path) -> None:
    outbox = open_outbox(tmp_path).outbox
    outbox.offer(events(2), Settled(2).ticket)
    assert outbox.next_batch(10, MIB, 60.0, 0.01) is None
    assert len(outbox.next_batch(2, MIB, 60.0, 0.01).events) == 2


def test_room_is_counted_in_events_and_in_bytes(tmp_path: Path) -> None:
    outbox = open_outbox(tmp_path, queue_max_messages=5, overflow="block").outbox
    assert outbox.offer(events(8), Settled(8).ticket) == 5
    assert outbox.is_full
    assert outbox.offer(events(1), Settled(1).ticket) == 0
    outbox.release(take(outbox))
    assert outbox.offer(events(1), Settled(1).ticket) == 1
    large = open_outbox(tmp_path / "large", queue_max_bytes=MIB, overflow="block").outbox
    many = events(5000)
    assert large.offer(many, Settled(5000).ticket) == pytest.approx(
        5000 * MIB / bytes_of(many), abs=10
    )


def test_spilled_events_follow_those_in_memory_and_newer_ones_follow_them(tmp_path: Path) -> None:
    bus = open_outbox(tmp_path, queue_max_messages=10)
    outbox = bus.outbox
    offered = events(60)
    for start in range(0, 40, 20):
        assert outbox.offer(offered[start : start + 20], Settled(20).ticket) == 20
    assert (outbox.queued, outbox.spooled) == (10, 30)
    found = ids(take(outbox, 5).events)
    outbox.offer(offered[40:], Settled(20).ticket)
    assert outbox.spooled == 50
    found += taken_ids(outbox)
    assert found == ids(offered)


def test_memory_takes_events_again_once_the_spool_is_empty(tmp_path: Path) -> None:
    outbox = open_outbox(tmp_path, queue_max_messages=10).outbox
    outbox.offer(events(20), Settled(20).ticket)
    taken_ids(outbox)
    outbox.offer(events(5, first=20), Settled(5).ticket)
    assert (outbox.queued, outbox.spooled) == (5, 0)


def test_spilled_events_are_settled_when_they_are_on_disk(tmp_path: Path) -> None:
    bus = open_outbox(tmp_path, queue_max_messages=1)
    settled = Settled(3)
    bus.outbox.offer(events(3), settled.ticket)
    bus.outbox.release(take(bus.outbox))
    assert not settled.is_done
    bus.spool.sync()
    assert settled.is_done


def test_event_written_ahead_is_settled_by_the_flush_and_removed_by_delivery(
    tmp_path: Path,
) -> None:
    bus = open_outbox(tmp_path, durability="spool")
    settled = Settled(4)
    bus.outbox.offer(events(4), settled.ticket)
    assert (bus.outbox.queued, bus.outbox.spooled) == (4, 0)
    bus.spool.sync()
    assert settled.is_done
    assert bus.spool.bytes > 0
    assert taken_ids(bus.outbox) == ids(events(4))
    assert bus.spool.bytes == 0


def test_events_written_ahead_beyond_memory_are_read_back_in_order(tmp_path: Path) -> None:
    outbox = open_outbox(tmp_path, durability="spool", queue_max_messages=10).outbox
    offered = events(50)
    for start in range(0, 50, 5):
        assert outbox.offer(offered[start : start + 5], Settled(5).ticket) == 5
    assert (outbox.queued, outbox.spooled) == (10, 40)
    assert taken_ids(outbox) == ids(offered)


def test_producer_that_waits_is_turned_away_instead_of_spilling(tmp_path: Path) -> None:
    outbox = open_outbox(tmp_path, queue_max_messages=3).outbox
    assert outbox.offer(events(5), Settled(5).ticket, may_spill=False) == 3
    assert outbox.spooled == 0


def test_too_old_a_queue_counts_as_full(tmp_path: Path) -> None:
    outbox = open_outbox(tmp_path, queue_max_age_ms=1).outbox
    old = events(1)
    old[0].enqueued_at -= 60
    outbox.offer(old, Settled(1).ticket)
    outbox.offer(events(1, first=1), Settled(1).ticket)
    assert (outbox.queued, outbox.spooled) == (1, 1)


def test_pressed_outbox_spills_at_once(tmp_path: Path) -> None:
    outbox = open_outbox(tmp_path).outbox
    outbox.is_pressed = True
    outbox.offer(events(2), Settled(2).ticket)
    assert (outbox.queued, outbox.spooled) == (0, 2)


def test_drop_newest_loses_new_events_and_counts_them(tmp_path: Path) -> None:
    bus = open_outbox(tmp_path, queue_max_messages=3, overflow="drop-newest")
    old, new = events(3), events(2, first=3)
    bus.outbox.offer(old, Settled(3).ticket)
    settled = Settled(2)
    bus.outbox.force(new, settled.ticket)
    assert settled.is_done
    assert bus.meter.totals.dropped == 2
    assert taken_ids(bus.outbox) == ids(old)


def test_drop_oldest_makes_room_for_new_events(tmp_path: Path) -> None:
    bus = open_outbox(tmp_path, queue_max_messages=3, overflow="drop-oldest")
    old, new = events(3), events(2, first=3)
    settled = Settled(3)
    bus.outbox.offer(old, settled.ticket)
    bus.outbox.force(new, Settled(2).ticket)
    assert bus.meter.totals.dropped == 2
    assert taken_ids(bus.outbox) == ids([old[2], *new])
    assert settled.is_done


@pytest.mark.parametrize("overflow", ["drop-newest", "block", "drop-oldest"])
def test_control_payloads_are_dropped_last(tmp_path: Path, overflow: str) -> None:
    bus = open_outbox(tmp_path, queue_max_messages=3, overflow=overflow)
    bus.outbox.offer([disconnect(1), *events(2)], Settled(3).ticket)
    bus.outbox.force([disconnect(2)], Settled(1).ticket)
    kept = taken_ids(bus.outbox)
    assert {"tester-boot-c1", "tester-boot-c2"} <= set(kept)
    assert bus.meter.totals.dropped == 1


def test_full_spool_loses_its_oldest_part(tmp_path: Path) -> None:
    bus = open_outbox(tmp_path, queue_max_messages=10, spool_max_bytes=16 * MIB)
    outbox = bus.outbox
    number = 0
    while outbox.offer(events(2000, first=number), Settled(2000).ticket) == 2000:
        bus.spool.sync()
        number += 2000
    before = outbox.spooled
    outbox.force(events(2000, first=number), Settled(2000).ticket)
    dropped = bus.meter.totals.dropped
    assert dropped > 0
    assert outbox.spooled == before + 2000 - dropped
    # The last offer had no room and only the forced one wrote its numbers.
    found = taken_ids(outbox)
    assert found[:10] == ids(events(10))
    assert found[-1] == f"tester-boot-{number + 1999}"


def test_spool_that_cannot_be_opened_leaves_memory_and_the_drop_policy(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in the way")
    bus = open_outbox(tmp_path, queue_max_messages=3)
    assert bus.spool is None
    assert bus.status().last_error.startswith("spool")
    assert bus.outbox.offer(events(5), Settled(5).ticket) == 3
    bus.outbox.force(events(2, first=3), Settled(2).ticket)
    assert taken_ids(bus.outbox) == [f"tester-boot-{number}" for number in (2, 3, 4)]
    assert bus.meter.totals.dropped == 2


def test_what_is_left_at_the_end_is_read_first_by_the_next_process(tmp_path: Path) -> None:
    bus = open_outbox(tmp_path, queue_max_messages=10)
    offered = events(30)
    settled = Settled(30)
    bus.outbox.offer(offered, settled.ticket)
    begun = take(bus.outbox, 4)
    bus.outbox.persist(begun.entries())
    bus.spool.close()
    assert settled.is_done
    assert bus.outbox.spooled == 30
    again = open_outbox(after_kill(tmp_path), queue_max_messages=10)
    assert taken_ids(again.outbox) == ids(offered)


def test_what_is_left_without_a_spool_is_counted_as_lost(tmp_path: Path) -> None:
    bus = open_outbox(tmp_path, overflow="block", spool_max_bytes=0)
    settled = Settled(5)
    bus.outbox.offer(events(5), settled.ticket)
    bus.outbox.persist([])
    assert settled.is_done
    assert bus.meter.totals.dropped == 5
    assert list(tmp_path.iterdir()) == []


def test_lanes_give_up_their_oldest_when_everything_waits_in_them(tmp_path: Path) -> None:
    bus = open_outbox(tmp_path, queue_max_messages=4, overflow="drop-oldest")
    offered = events(4)
    bus.outbox.offer(offered, Settled(4).ticket)
    bus.outbox.park(take(bus.outbox).entries(), 60.0)
    new = events(1, first=4)
    bus.outbox.force(new, Settled(1).ticket)
    assert bus.meter.totals.dropped == 1
    bus.outbox.drain()
    assert taken_ids(bus.outbox) == ids([*offered[1:], *new])
