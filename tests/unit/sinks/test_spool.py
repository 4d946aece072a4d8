"""Events on disk: in order, once, and through crashes."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.routing import Route
from tardis_machine.bronze.series import Origin
from tardis_machine.buses.files.log import segments
from tardis_machine.model.control import Disconnect
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.spool import Spool, SpoolFullError
from tardis_machine.sinks.spool_dirs import open_spool
from tests.unit.sinks.delivery import events, ids

MAX_BYTES = 16 << 20


def nothing() -> None:
    pass


def read_ids(spool: Spool, count: int = 10_000) -> list[str]:
    return [name for read in spool.read(count) for name in ids(read.events)]


def after_kill(root: Path) -> Path:
    """Return a copy of the directory as it is now: what a process killed now would leave."""
    copy = root.with_name(root.name + "-after-kill")
    shutil.copytree(root, copy)
    return copy


def small_spool(
    root: Path, on_lost: Callable[[int], None] = lambda _: None, max_bytes: int = MAX_BYTES
) -> Spool:
    """Return a spool that closes a segment at every flush."""
    return open_spool(root, max_bytes, on_lost, segment_bytes=1)


def disconnect(second: int) -> Event:
    record = Disconnect(exchange="bitmex", local_timestamp=f"2024-03-01T00:00:{second:02d}.000000Z")
    (envelope,) = Encoder("tester", Origin.REPLAY).encode([record], 0)
    route = Route("bronze", "bitmex||disconnect")
    return Event(
        route, envelope.series, envelope.data, envelope.identity, f"tester-boot-c{second}", 0.0
    )


def test_events_are_read_in_order_with_everything_a_sink_needs(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, MAX_BYTES)
    written = events(10, "XBTUSD", "ETHUSD")
    spool.append(written[:4], nothing)
    spool.append(written[4:], nothing)
    assert spool.events == 10
    (first, second) = spool.read(5)
    assert spool.events == 0
    read = [*first.events, *second.events]
    assert ids(read) == ids(written)
    for before, after in zip(written, read, strict=True):
        assert (after.route, after.data, after.event_id) == (
            before.route,
            before.data,
            before.event_id,
        )
        assert (after.series.case, after.series.meta) == (before.series.case, before.series.meta)
        assert (after.series.symbol, after.series.origin) == (
            before.series.symbol,
            before.series.origin,
        )
    assert read[0].series is read[2].series
    spool.close()


def test_waiting_is_over_only_after_the_flush(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, MAX_BYTES)
    durable: list[str] = []
    spool.append(events(1), lambda: durable.append("a"))
    assert durable == []
    spool.sync()
    assert durable == ["a"]
    spool.close()


def test_unsettled_events_come_again_after_a_kill_and_settled_ones_do_not(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, MAX_BYTES)
    written = events(30)
    for start in range(0, 30, 10):
        spool.append(written[start : start + 10], nothing)
    first, second, _ = spool.read(30)
    second.ticket.settle(10)
    first.ticket.settle(10)
    spool.sync()
    again = open_spool(after_kill(tmp_path), MAX_BYTES)
    assert again.events == 10
    assert read_ids(again) == ids(written[20:])
    again.close()
    spool.close()


def test_settled_spool_leaves_no_segments_behind(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, MAX_BYTES)
    spool.append(events(5), nothing)
    (read,) = spool.read(5)
    read.ticket.settle(5)
    assert spool.bytes == 0
    spool.close()
    assert segments(tmp_path / "0") == []


def test_events_put_first_are_read_before_all_others(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, MAX_BYTES)
    written = events(40)
    spool.append(written[20:30], nothing)
    (read,) = spool.read(10)
    read.ticket.settle(10)
    spool.append(written[30:], nothing)
    spool.put_first(written[:20])
    spool.close()
    again = open_spool(tmp_path, MAX_BYTES)
    assert read_ids(again) == ids(written[:20] + written[30:])
    again.append(events(1, first=40), nothing)
    assert read_ids(again) == ["tester-boot-40"]
    again.close()


def test_full_spool_refuses_and_takes_again_once_events_are_settled(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, 20_000)
    written = events(40)
    spool.append(written, nothing)
    with pytest.raises(SpoolFullError):
        spool.append(written, nothing)
    (read,) = spool.read(40)
    read.ticket.settle(40)
    spool.append(written, nothing)
    spool.close()


def test_oldest_segment_is_dropped_but_not_its_control_payloads(tmp_path: Path) -> None:
    spool = small_spool(tmp_path)
    written = events(30)
    for start in range(0, 30, 10):
        spool.append([*written[start : start + 10], disconnect(start)], nothing)
        spool.sync()
    dropped = spool.drop_oldest()
    assert dropped == {PayloadCase.TRADE: 10}
    assert spool.events == 23
    assert read_ids(spool) == [
        "tester-boot-c0",
        *ids(written[10:20]),
        "tester-boot-c10",
        *ids(written[20:]),
        "tester-boot-c20",
    ]
    spool.close()


def test_segment_that_is_being_read_is_not_dropped(tmp_path: Path) -> None:
    spool = small_spool(tmp_path)
    written = events(20)
    spool.append(written[:5], nothing)
    spool.append(written[5:10], nothing)
    spool.sync()
    spool.append(written[10:], nothing)
    spool.sync()
    spool.append(events(1, first=20), nothing)
    (first,) = spool.read(5)
    assert spool.drop_oldest() == {PayloadCase.TRADE: 10}
    assert read_ids(spool) == [*ids(written[5:10]), "tester-boot-20"]
    first.ticket.settle(5)
    spool.close()


def test_living_process_keeps_its_spool_and_a_second_one_gets_another(tmp_path: Path) -> None:
    first, second = open_spool(tmp_path, MAX_BYTES), open_spool(tmp_path, MAX_BYTES)
    first.append(events(3), nothing)
    assert second.events == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    first.close()
    second.close()


def test_spools_of_dead_processes_are_taken_over(tmp_path: Path) -> None:
    first, second = open_spool(tmp_path, MAX_BYTES), open_spool(tmp_path, MAX_BYTES)
    mine, theirs = events(10), events(10, first=100)
    first.append(mine, nothing)
    second.append(theirs[:5], nothing)
    second.append(theirs[5:], nothing)
    second.read(1)[0].ticket.settle(5)
    first.sync()
    second.sync()
    left = after_kill(tmp_path)
    heir = open_spool(left, MAX_BYTES)
    assert heir.events == 15
    assert read_ids(heir) == [*ids(mine), *ids(theirs[5:])]
    assert segments(left / "1") == []
    for spool in (heir, first, second):
        spool.close()


def test_unreadable_segment_is_counted_and_the_next_one_is_read(tmp_path: Path) -> None:
    lost: list[int] = []
    spool = small_spool(tmp_path, lost.append)
    written = events(20)
    spool.append(written[:10], nothing)
    spool.sync()
    spool.append(written[10:], nothing)
    spool.sync()
    damaged = segments(tmp_path / "0")[0].path
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    assert read_ids(spool) == ids(written[10:])
    assert lost == [10]
    spool.close()


@pytest.mark.parametrize("damage", [lambda path: path.write_text("{"), lambda path: path.unlink()])
def test_lost_cursor_repeats_events_and_loses_none(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    spool = open_spool(tmp_path, MAX_BYTES)
    written = events(20)
    spool.append(written[:10], nothing)
    spool.append(written[10:], nothing)
    spool.read(1)[0].ticket.settle(10)
    spool.close()
    damage(tmp_path / "0" / "cursor.json")
    again = open_spool(tmp_path, MAX_BYTES)
    assert read_ids(again) == ids(written)
    again.close()
