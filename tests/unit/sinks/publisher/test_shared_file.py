"""Files that one process replaces in place while others read them."""

import multiprocessing
from pathlib import Path

from tardis_machine.sinks.publisher.shared_file import SharedFile
from tests.unit.sinks.storage.test_log import file_size_limit

ROOM_BYTES = 8192


def test_reader_gets_what_was_written_last(tmp_path: Path) -> None:
    file = SharedFile(tmp_path / "status")
    assert file.read() is None
    file.make(ROOM_BYTES)
    assert file.read() is None
    for data in (b"long" * 100, b"short"):
        file.write(data)
        assert SharedFile(tmp_path / "status").read() == data


def test_replacing_needs_no_room_on_the_disk(tmp_path: Path) -> None:
    file = SharedFile(tmp_path / "status")
    file.make(ROOM_BYTES)
    before = (tmp_path / "status").stat()
    file.write(b"x" * ROOM_BYTES)
    after = (tmp_path / "status").stat()
    assert (after.st_ino, after.st_size, after.st_blocks) == (
        before.st_ino,
        before.st_size,
        before.st_blocks,
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "status"]


def test_file_that_cannot_grow_keeps_what_can_be_read_or_nothing(tmp_path: Path) -> None:
    file = SharedFile(tmp_path / "status")
    file.make(ROOM_BYTES)
    file.write(b"before")
    with file_size_limit(ROOM_BYTES // 2):
        file.write(b"x" * ROOM_BYTES)
    # What is cut off is nobody's status.
    assert file.read() is None
    file.write(b"after")
    assert file.read() == b"after"


def write_again_and_again(path: Path, rounds: int) -> None:
    file = SharedFile(path)
    for number in range(rounds):
        file.write(bytes([number % 256]) * (1000 + number % 5000))


def test_reader_never_gets_parts_of_two(tmp_path: Path) -> None:
    file = SharedFile(tmp_path / "status")
    file.make(ROOM_BYTES)
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=write_again_and_again, args=(tmp_path / "status", 20_000))
    writer.start()
    seen = 0
    while writer.is_alive():
        data = file.read()
        if data is not None:
            assert data == data[:1] * len(data)
            seen += 1
    writer.join()
    assert seen > 0
