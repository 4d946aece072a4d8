"""Directories of logs: who writes, who reads, what is set aside."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

from tardis_machine.sinks.storage.directory import LogReader, create_log, find_logs
from tardis_machine.sinks.storage.quarantine import list_quarantine, set_aside
from tardis_machine.sinks.storage.reader import BadBytes

KAFKA, OTHER = LogReader("kafka", "a:9092"), LogReader("kafka", "b:9092")


def hold(path: Path, ready: Connection) -> None:
    """Be the writer and a reader of a log until told to end."""
    log, writer = create_log(path, "producer", "server", 1, [KAFKA])
    locks = [writer, log.lock_reader(KAFKA)]
    ready.send(len(locks))
    ready.recv()


def test_log_is_found_with_its_owner(tmp_path: Path) -> None:
    first, _ = create_log(tmp_path, "producer", "server-1", 1_700_000_000_000_000, [KAFKA])
    second, _ = create_log(tmp_path, "producer", "server-2", 1_700_000_000_000_001)
    found = list(find_logs(tmp_path))
    assert [log.owner for log in found] == [first.owner, second.owner]
    assert first.path.stat().st_mode & 0o777 == 0o700
    first.remove()
    assert [log.log_id for log in find_logs(tmp_path)] == [second.log_id]


def test_nothing_is_found_where_no_log_is(tmp_path: Path) -> None:
    assert list(find_logs(tmp_path)) == []
    (tmp_path / "logs" / "being-made").mkdir(parents=True)
    assert list(find_logs(tmp_path)) == []


def test_log_whose_owner_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    bad, _ = create_log(tmp_path, "producer", "server", 1)
    good, _ = create_log(tmp_path, "producer", "server", 2)
    (bad.path / "owner").write_bytes(b"{")
    assert [log.log_id for log in find_logs(tmp_path)] == [good.log_id]
    assert bad.path.exists()


def test_reader_is_a_bus_at_one_endpoint(tmp_path: Path) -> None:
    log, _ = create_log(tmp_path, "producer", "server", 1, [KAFKA, OTHER])
    assert log.position_path(KAFKA) != log.position_path(OTHER)
    assert next(find_logs(tmp_path)).owner.readers == (KAFKA, OTHER)


def test_locks_end_with_the_process_that_has_them(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=hold, args=(tmp_path, theirs))
    process.start()
    assert ours.recv() == 2
    [log] = find_logs(tmp_path)
    assert log.has_writer
    assert log.is_read(KAFKA)
    assert log.lock_reader(KAFKA) is None
    assert log.lock_reader(OTHER) is not None
    process.kill()
    process.join()
    assert not log.has_writer
    assert log.lock_reader(KAFKA) is not None


def test_bad_bytes_are_set_aside_once(tmp_path: Path) -> None:
    bad = BadBytes(100, 104, b"oops", "its checksum is wrong")
    for _ in range(2):
        set_aside(tmp_path, "log", bad)
    [note] = list_quarantine(tmp_path)
    assert (note.log_id, note.offset, note.size) == ("log", 100, 4)
    assert note.reason == "its checksum is wrong"
    assert [path.read_bytes() for path in tmp_path.rglob("*.bytes")] == [b"oops"]
