"""Who has a log, asked by several processes at once and while another one deletes it."""

import fcntl
import os
from pathlib import Path

from tardis_machine.sinks.storage.directory import LOCK, LogReader, create_log

READER = LogReader("kafka", "broker:9092")


def test_whoever_only_asks_is_not_taken_for_the_writer(tmp_path: Path) -> None:
    log, lock = create_log(tmp_path, "producer", "server", 1)
    assert log.has_writer
    lock.release()
    asking = os.open(log.path / LOCK, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    assert not log.has_writer
    os.close(asking)


def test_log_that_another_process_deleted_has_neither_writer_nor_reader(tmp_path: Path) -> None:
    log, lock = create_log(tmp_path, "producer", "server", 1)
    reading = log.lock_reader(READER)
    assert reading is not None
    assert log.is_read(READER)
    log.remove()
    assert not log.has_writer
    assert not log.is_read(READER)
    lock.release()
    reading.release()


def test_interrupted_deletion_leaves_no_log_and_is_finished_by_the_next(tmp_path: Path) -> None:
    logs = [create_log(tmp_path, "producer", "server", number)[0] for number in (1, 2)]
    # As far as a process that died came: it had moved the first one aside.
    (tmp_path / "removed").mkdir()
    logs[0].path.rename(tmp_path / "removed" / logs[0].log_id)
    logs[1].remove()
    assert list(tmp_path.glob("*/*")) == []
