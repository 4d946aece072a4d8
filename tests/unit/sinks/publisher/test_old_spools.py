"""Spools as the version before wrote them, on their way into a log."""

import json
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tardis_machine.buses.files.log import BLOCK_HEADER, parse_records, segments
from tardis_machine.sinks.base import Event
from tardis_machine.sinks.headers import Headers
from tardis_machine.sinks.log_writer import LogWriter
from tardis_machine.sinks.publisher.old_spools import find_old_spools, move_old_spools
from tardis_machine.sinks.records import RecordPacker
from tardis_machine.sinks.storage.directory import LogDirectory, LogReader, find_logs
from tardis_machine.sinks.storage.quarantine import list_quarantine
from tardis_machine.sinks.storage.reader import Chunk
from tests.unit.sinks.delivery import events, ids
from tests.unit.sinks.storage.logs import read_all

READER = LogReader("memory", "here")
WHOLE = 1 << 20


def write_spool(directory: Path, *written: Sequence[Event]) -> None:
    """Write a segment with one block of each sequence of events."""
    writer = LogWriter(directory, segment_bytes=WHOLE)
    packer = RecordPacker(Headers({}), names_series=True)
    for block in written:
        writer.append(packer.pack(block))
    writer.close()


def move(root: Path, *readers: LogReader) -> None:
    move_old_spools([root], root, readers or [READER], "tester")


def moved(root: Path) -> list[str]:
    """Return the delivery ids of all events in the one log that there is."""
    (log,) = find_logs(root)
    return [
        record.headers["deliveryId"]
        for chunk in read_all(log.path)
        if isinstance(chunk, Chunk)
        for record in parse_records(chunk.body)
    ]


def spool_of(root: Path, number: int = 0) -> Path:
    return root / "memory" / "spool" / str(number)


@contextmanager
def small_files(size_bytes: int) -> Iterator[None]:
    """Let no file grow beyond a size, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_shelf_comes_first_and_the_cursor_is_heeded(tmp_path: Path) -> None:
    made = events(40)
    spool = spool_of(tmp_path)
    write_spool(spool, made[:10], made[20:30])
    write_spool(spool, made[30:])
    write_spool(spool / "shelf", made[10:20])
    first = segments(spool)[0]
    (spool / "cursor.json").write_text(json.dumps({first.number: block_end(first.path)}))
    move(tmp_path)
    assert moved(tmp_path) == ids(made[10:])
    assert not spool.exists()


def test_spools_of_several_processes_go_to_one_log_in_their_order(tmp_path: Path) -> None:
    made = events(30)
    for number, start in ((2, 0), (10, 15)):
        write_spool(spool_of(tmp_path, number), made[start : start + 15])
    move(tmp_path)
    assert moved(tmp_path) == ids(made)
    owner = next(iter(find_logs(tmp_path))).owner
    assert owner.producer_id == "tester"
    assert owner.readers == (READER,)


def test_large_block_becomes_several_chunks(tmp_path: Path) -> None:
    made = events(2500)
    write_spool(spool_of(tmp_path), made)
    move(tmp_path)
    (log,) = find_logs(tmp_path)
    assert [chunk.head.events for chunk in chunks(log)] == [1000, 1000, 500]
    assert moved(tmp_path) == ids(made)


def test_move_that_failed_half_way_is_repeated_in_the_same_log(tmp_path: Path) -> None:
    made = events(3000)
    spool = spool_of(tmp_path)
    write_spool(spool, made[:500])
    write_spool(spool, made[500:1500], made[1500:])
    with small_files(1024 + 500_000):
        move(tmp_path)
    before = moved(tmp_path)
    assert 500 <= len(before) < 3000
    assert len(segments(spool)) == 1
    move(tmp_path)
    after = moved(tmp_path)
    assert after[: len(before)] == before
    assert list(dict.fromkeys(after)) == ids(made)
    assert not spool.exists()


def test_spool_of_a_running_process_is_left_alone(tmp_path: Path) -> None:
    made = events(10)
    write_spool(spool_of(tmp_path), made)
    running = LogWriter(spool_of(tmp_path), segment_bytes=WHOLE)
    move(tmp_path)
    assert list(find_logs(tmp_path)) == []
    running.close()
    move(tmp_path)
    assert moved(tmp_path) == ids(made)


def test_spool_of_a_bus_that_is_off_is_left_alone(tmp_path: Path) -> None:
    write_spool(spool_of(tmp_path), events(10))
    move(tmp_path, LogReader("kafka", "here"))
    (left,) = find_old_spools([tmp_path])
    assert left.bus == "memory"
    assert left.size_bytes > 0


def test_empty_spool_makes_no_log(tmp_path: Path) -> None:
    write_spool(spool_of(tmp_path))
    move(tmp_path)
    assert list(find_logs(tmp_path)) == []


def test_damaged_block_goes_to_quarantine_and_the_others_are_moved(tmp_path: Path) -> None:
    made = events(30)
    spool = spool_of(tmp_path)
    write_spool(spool, made[:10], made[10:20], made[20:])
    path = segments(spool)[0].path
    end = block_end(path)
    damage(path, end + BLOCK_HEADER.size + 5)
    size_bytes = block_end(path, end) - end
    move(tmp_path)
    assert moved(tmp_path) == ids(made[:10] + made[20:])
    (note,) = list_quarantine(tmp_path)
    assert (note.offset, note.size) == (end, size_bytes)
    assert "corrupt" in note.reason


@pytest.mark.parametrize("place", [0, 5])
def test_damaged_head_of_a_block_puts_the_rest_to_quarantine(tmp_path: Path, place: int) -> None:
    made = events(30)
    spool = spool_of(tmp_path)
    write_spool(spool, made[:10], made[10:20], made[20:])
    path = segments(spool)[0].path
    end, size_bytes = block_end(path), path.stat().st_size
    damage(path, end + place)
    move(tmp_path)
    assert moved(tmp_path) == ids(made[:10])
    (note,) = list_quarantine(tmp_path)
    assert (note.offset, note.size) == (end, size_bytes - end)


def chunks(log: LogDirectory) -> list[Chunk]:
    return [chunk for chunk in read_all(log.path) if isinstance(chunk, Chunk)]


def block_end(path: Path, start: int = 0) -> int:
    """Return where the block at a byte ends."""
    _, _, length, _ = BLOCK_HEADER.unpack_from(path.read_bytes(), start)
    return start + BLOCK_HEADER.size + int(length)


def damage(path: Path, place: int) -> None:
    """Change one byte of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)
