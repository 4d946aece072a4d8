"""Events of keys in trouble, on disk: by key, in order, a portion at a time."""

from pathlib import Path

import pytest

from tardis_machine.buses.files.log import segments
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.fifo import Entry
from tardis_machine.sinks.log_writer import LogWriter
from tardis_machine.sinks.shelf import PORTION_EVENTS, Keyed, Shelf
from tardis_machine.sinks.spool import SpoolFullError
from tardis_machine.sinks.tickets import forgotten
from tests.unit.sinks.delivery import events, ids

MAX_BYTES = 16 << 20


def open_shelf(folder: Path, max_bytes: int = MAX_BYTES, segment_bytes: int = MAX_BYTES) -> Shelf:
    return Shelf(LogWriter(folder, segment_bytes=segment_bytes), max_bytes)


def keyed(offered: list[Event]) -> list[Keyed]:
    ticket = forgotten(len(offered))
    return [(event.series.symbol, (event, ticket)) for event in offered]


def settle(entries: list[Entry]) -> None:
    for _, ticket in entries:
        ticket.settle(1)


def names(entries: list[Entry]) -> list[str]:
    return ids([event for event, _ in entries])


def test_events_of_a_key_come_back_in_order_in_any_pieces(tmp_path: Path) -> None:
    shelf = open_shelf(tmp_path)
    offered = events(3 * PORTION_EVENTS, "XBTUSD", "ETHUSD")
    shelf.put(keyed(offered[:700]))
    shelf.put(keyed(offered[700:]))
    assert shelf.count("ETHUSD") == len(offered) // 2
    pieces = [shelf.take("ETHUSD", count) for count in (1, 349, 2, PORTION_EVENTS, 10_000)]
    assert [len(piece) for piece in pieces] == [1, 349, 2, 1000, 148]
    assert [name for piece in pieces for name in names(piece)] == ids(offered, "ETHUSD")
    assert shelf.take("ETHUSD", 1) == []
    assert shelf.events == shelf.count("XBTUSD") == len(offered) // 2
    shelf.close()


def test_settled_segments_are_removed(tmp_path: Path) -> None:
    shelf = open_shelf(tmp_path, segment_bytes=1)
    for start in range(3):
        shelf.put(keyed(events(10, first=start * 10)))
        shelf.sync()
    taken = shelf.take("XBTUSD", 30)
    settle(taken[:10])
    left = [segment.number for segment in segments(tmp_path)]
    settle(taken[10:])
    shelf.close()
    assert len(left) >= 2
    assert segments(tmp_path) == []


def test_full_shelf_takes_nothing(tmp_path: Path) -> None:
    shelf = open_shelf(tmp_path, max_bytes=4096)
    shelf.put(keyed(events(10)))
    with pytest.raises(SpoolFullError):
        shelf.put(keyed(events(100)))
    assert shelf.events == 10
    shelf.close()


def test_unreadable_events_are_counted_as_lost(tmp_path: Path) -> None:
    lost: list[int] = []
    shelf = Shelf(LogWriter(tmp_path, segment_bytes=MAX_BYTES), MAX_BYTES, lost.append)
    shelf.put(keyed(events(10)))
    shelf.sync()
    (segment,) = segments(tmp_path)
    data = bytearray(segment.path.read_bytes())
    data[-1] ^= 1
    segment.path.write_bytes(data)
    assert shelf.take("XBTUSD", 4) == []
    assert sum(lost) == 10
    shelf.close()
