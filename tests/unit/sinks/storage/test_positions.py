"""Positions: saved whole, moved over what is settled, counted exactly."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from tardis_machine.sinks.storage.in_flight import ChunkInFlight, InFlight
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.positions import (
    SLOT_BYTES,
    Position,
    PositionFile,
    read_position,
)


def added(counts: tuple[int, ...], settled: Settled, count: int) -> tuple[int, ...]:
    """Return counts with some more events settled in one way."""
    changed = list(counts)
    changed[settled] += count
    return tuple(changed)


def save_and_die(path: Path) -> None:
    """Save a position, and be killed before anything is closed."""
    PositionFile(path, is_writable=True).save(position(70, delivered=7))
    os.kill(os.getpid(), signal.SIGKILL)


class Nobody:
    """Owns chunks and does nothing."""

    def advance(self) -> None:
        """Do nothing."""


def chunk(number: int, events: int) -> ChunkInFlight:
    """Return a chunk of a log whose chunks have 100 bytes."""
    return ChunkInFlight(Nobody(), 100 * (number - 1), 100 * number, number, events)


def position(offset: int, **counts: int) -> Position:
    """Return a position with some counts."""
    made = Position(offset=offset)
    for name, count in counts.items():
        made = Position(offset=offset, counts=added(made.counts, Settled[name.upper()], count))
    return made


def test_position_survives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "kafka.position"
    assert read_position(path) is None
    file = PositionFile(path, is_writable=True)
    assert file.load() is None
    for offset in (10, 20, 30):
        file.save(position(offset, delivered=offset))
    # Whoever looks from outside sees it at once.
    assert read_position(path) == position(30, delivered=30)
    file.close()
    again = PositionFile(path, is_writable=True)
    assert again.load() == position(30, delivered=30)
    again.save(position(40))
    assert read_position(path) == position(40)


def test_position_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "kafka.position"
    process = multiprocessing.get_context("spawn").Process(target=save_and_die, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert read_position(path) == position(70, delivered=7)


@pytest.mark.parametrize("slot", [0, 1])
def test_torn_position_falls_back_to_the_one_before(tmp_path: Path, slot: int) -> None:
    path = tmp_path / "kafka.position"
    file = PositionFile(path, is_writable=True)
    file.save(position(10))
    file.save(position(20))
    file.close()
    data = bytearray(path.read_bytes())
    data[slot * SLOT_BYTES + 40] ^= 1
    path.write_bytes(data)
    assert read_position(path) == position(10 if slot == 0 else 20)


def test_file_that_holds_nothing_is_no_position(tmp_path: Path) -> None:
    path = tmp_path / "kafka.position"
    path.write_bytes(b"")
    assert read_position(path) is None


def test_position_moves_over_what_is_settled() -> None:
    in_flight = InFlight(Position())
    first, second = chunk(1, 3), chunk(2, 2)
    in_flight.add(first)
    in_flight.add(second)
    assert not in_flight.advance()
    second.settle_all(Settled.DELIVERED)
    first.outcomes[0] = Settled.DELIVERED
    first.outcomes[2] = Settled.DEAD
    assert in_flight.advance()
    assert (in_flight.position.offset, in_flight.position.line) == (0, 1)
    assert in_flight.position.events == 1
    assert in_flight.waiting == 1
    first.outcomes[1] = Settled.FILTERED
    assert in_flight.advance()
    assert (in_flight.position.offset, in_flight.position.line) == (200, 0)
    assert in_flight.position.number == 2
    assert in_flight.position.count(Settled.DELIVERED) == 3
    assert in_flight.position.count(Settled.DEAD) == 1
    assert in_flight.position.events == 5
    assert len(in_flight) == 0


def test_totals_count_what_is_settled_behind_a_waiting_event() -> None:
    in_flight = InFlight(position(0, delivered=7))
    waiting, settled = chunk(1, 1), chunk(2, 2)
    in_flight.add(waiting)
    in_flight.add(settled)
    settled.settle_all(Settled.OVERFLOW)
    totals = in_flight.totals()
    assert (totals[Settled.DELIVERED], totals[Settled.OVERFLOW]) == (7, 2)
    assert not in_flight.advance()
    assert in_flight.position.dropped == 0


def test_events_before_a_saved_line_are_not_counted_twice() -> None:
    in_flight = InFlight(Position(line=2, counts=added(Position().counts, Settled.DELIVERED, 2)))
    resumed = chunk(1, 3)
    resumed.skip(2)
    in_flight.add(resumed)
    assert resumed.waiting == 1
    resumed.outcomes[2] = Settled.DELIVERED
    assert in_flight.advance()
    assert in_flight.position.count(Settled.DELIVERED) == 3


def test_empty_chunk_is_passed_at_once() -> None:
    in_flight = InFlight(Position())
    in_flight.add(chunk(1, 0))
    assert in_flight.advance()
    assert in_flight.position.offset == 100
