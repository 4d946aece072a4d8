"""Directories of logs: who writes, who reads, what is set aside."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tardis_machine.model.errors import SinkError
from tardis_machine.sinks.storage.directory import create_log, find_logs
from tardis_machine.sinks.storage.quarantine import list_quarantine, set_aside
from tardis_machine.sinks.storage.reader import BadBytes


def hold(path: Path, ready: Connection) -> None:
    """Be the writer and a reader of a log until told to end."""
    [log] = find_logs(path)
    locks = [log.lock_writer(), log.lock_reader("kafka")]
    ready.send(len(locks))
    ready.recv()


def test_log_is_found_with_its_owner(tmp_path: Path) -> None:
    first = create_log(tmp_path, "producer", "server-1", 1_700_000_000_000_000)
    second = create_log(tmp_path, "producer", "server-2", 1_700_000_000_000_001)
    found = list(find_logs(tmp_path))
    assert [log.owner for log in found] == [first.owner, second.owner]
    assert first.path.stat().st_mode & 0o777 == 0o700
    first.remove()
    assert [log.log_id for log in find_logs(tmp_path)] == [second.log_id]


def test_nothing_is_found_where_no_log_is(tmp_path: Path) -> None:
    assert list(find_logs(tmp_path)) == []
    (tmp_path / "logs" / "being-made").mkdir(parents=True)
    assert list(find_logs(tmp_path)) == []


def test_log_whose_owner_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    log = create_log(tmp_path, "producer", "server", 1)
    (log.path / "owner").write_bytes(b"{")
    with pytest.raises(SinkError, match="does not say whose log it is"):
        list(find_logs(tmp_path))


def test_locks_end_with_the_process_that_has_them(tmp_path: Path) -> None:
    log = create_log(tmp_path, "producer", "server", 1)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=hold, args=(tmp_path, theirs))
    process.start()
    assert ours.recv() == 2
    assert log.has_writer
    assert log.lock_reader("kafka") is None
    with pytest.raises(BlockingIOError):
        log.lock_writer()
    other = log.lock_reader("redis")
    assert other is not None
    process.kill()
    process.join()
    assert not log.has_writer
    assert log.lock_reader("kafka") is not None


def test_bad_bytes_are_set_aside_once(tmp_path: Path) -> None:
    bad = BadBytes(100, 104, b"oops", "its checksum is wrong")
    for _ in range(2):
        set_aside(tmp_path, "log", bad)
    [note] = list_quarantine(tmp_path)
    assert (note.log_id, note.offset, note.size) == ("log", 100, 4)
    assert note.reason == "its checksum is wrong"
    assert [path.read_bytes() for path in tmp_path.rglob("*.bytes")] == [b"oops"]
