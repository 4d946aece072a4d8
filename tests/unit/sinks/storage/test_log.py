"""A chunk log, written and read: whole chunks, torn ones, damaged ones, full disks."""

import errno
import os
import resource
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType

import pytest

from tardis_machine.sinks.storage.chunks import HEAD_BYTES, Flags
from tardis_machine.sinks.storage.reader import BadBytes, Chunk, ChunkReader, last_chunk
from tardis_machine.sinks.storage.segments import delete_before, end_of, list_segments
from tardis_machine.sinks.storage.writer import FLUSH_BYTES, Fsync, Syncer
from tests.unit.sinks.storage.logs import append, names, open_writer, read_all


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let no further file be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def damage(directory: Path, offset: int, segment: int = 0) -> None:
    """Change one bit of a segment."""
    path = list_segments(directory)[segment].path
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def is_open(path: Path) -> bool:
    """Say whether this process has a file open."""
    links = Path("/proc/self/fd").iterdir()
    return any(link.resolve() == path.resolve() for link in links)


def break_flushing(path: Path) -> None:
    """Put a pipe behind the descriptor of a file: it fails to flush, as a broken disk does."""
    folder = Path("/proc/self/fd")
    [descriptor] = [int(link.name) for link in folder.iterdir() if link.resolve() == path.resolve()]
    reading_end, writing_end = os.pipe()
    os.dup2(writing_end, descriptor)
    os.close(reading_end)
    os.close(writing_end)


def test_chunks_come_back_as_they_were_written(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    writer.append(b"context", b"a\nb\n", 2, Flags.LAST)
    writer.append(b"", b"", 0, Flags.LAST)
    first, second = read_all(tmp_path)
    assert isinstance(first, Chunk)
    assert isinstance(second, Chunk)
    assert (first.context, first.body, first.head.flags) == (b"context", b"a\nb\n", Flags.LAST)
    assert (first.head.number, first.head.first_event, first.head.events) == (1, 0, 2)
    assert (second.head.number, second.head.first_event, second.head.flags) == (2, 2, Flags.LAST)
    assert second.head.appended_us == first.head.appended_us + 1
    assert second.end == writer.end == end_of(tmp_path)


def test_log_goes_on_over_segments(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer, *"abcdefgh")
    assert len(list_segments(tmp_path)) > 1
    assert names(read_all(tmp_path)) == list("abcdefgh")


def test_reader_waits_at_the_end_and_goes_on(tmp_path: Path) -> None:
    writer, reader = open_writer(tmp_path), ChunkReader(tmp_path)
    assert reader.read(0) is None
    append(writer, "a")
    found = reader.read(0)
    assert isinstance(found, Chunk)
    assert reader.read(found.end) is None
    append(writer, "b")
    assert isinstance(reader.read(found.end), Chunk)


def test_chunk_that_is_being_written_is_not_there_yet(tmp_path: Path) -> None:
    append(open_writer(tmp_path), "a", "b")
    path = list_segments(tmp_path)[0].path
    whole = path.read_bytes()
    for size in range(len(whole) // 2, len(whole)):
        path.write_bytes(whole[:size])
        assert names(read_all(tmp_path)) == ["a"]


def test_torn_chunk_of_a_dead_writer_is_left_behind(tmp_path: Path) -> None:
    append(open_writer(tmp_path), "a", "b")
    path = list_segments(tmp_path)[0].path
    path.write_bytes(path.read_bytes()[:-3])
    writer = open_writer(tmp_path)
    append(writer, "c")
    found = read_all(tmp_path)
    assert names(found) == ["a", "it was not written to its end", "c"]
    last = found[-1]
    assert isinstance(last, Chunk)
    assert (last.head.number, last.head.first_event) == (2, 2)


def test_damaged_chunk_is_set_apart_and_the_rest_read(tmp_path: Path) -> None:
    append(open_writer(tmp_path), "a", "b", "c")
    damage(tmp_path, HEAD_BYTES + 9)
    found = read_all(tmp_path)
    assert names(found) == ["its checksum is wrong", "b", "c"]
    bad = found[0]
    assert isinstance(bad, BadBytes)
    assert len(bad.data) == bad.end - bad.start


@pytest.mark.parametrize("byte", [0, 4, 12, HEAD_BYTES - 1])
def test_damaged_head_hides_only_its_chunk(tmp_path: Path, byte: int) -> None:
    append(open_writer(tmp_path), "a", "b", "c")
    damage(tmp_path, byte)
    found = read_all(tmp_path)
    assert names(found) == ["it does not begin with a sound head", "b", "c"]
    after = found[1]
    assert isinstance(after, Chunk)
    # How much is missing follows from the chunk behind it.
    assert after.head.first_event == 2


def test_chunk_of_another_version_is_passed_over(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer, "a", "b")
    path = list_segments(tmp_path)[0].path
    data = bytearray(path.read_bytes())
    data[4] = 9
    checksum = zlib.crc32(data[: HEAD_BYTES - 4])
    data[HEAD_BYTES - 4 : HEAD_BYTES] = checksum.to_bytes(4, "little")
    path.write_bytes(data)
    assert names(read_all(tmp_path)) == ["version 9 with codec 0 is not known", "b"]


def test_full_disk_leaves_no_part_of_a_chunk(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, segment_bytes=10_000)
    append(writer, "a")
    with file_size_limit(writer.end + 20), pytest.raises(OSError, match="File too large"):
        append(writer, "b")
    append(writer, "c")
    found = read_all(tmp_path)
    assert names(found) == ["a", "c"]
    assert writer.events == 4


def test_segment_that_cannot_be_written_on_can_be_deleted(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, segment_bytes=10_000)
    append(writer, "a")
    end = writer.end
    for _ in range(3):
        with file_size_limit(0), pytest.raises(OSError, match="File too large"):
            append(writer, "b")
    # Once it is read: what is written next is in another one.
    assert [segment.base for segment in list_segments(tmp_path)] == [0, end]
    assert delete_before(tmp_path, end) == 1
    append(writer, "c")
    assert names(read_all(tmp_path)) == ["c"]


def test_segment_that_cannot_be_opened_costs_nothing(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer, *"abc")
    with no_more_files(), pytest.raises(OSError, match="Too many open files"):
        append(writer, *"defgh")
    before = names(read_all(tmp_path))
    append(writer, "z")
    assert names(read_all(tmp_path)) == [*before, "z"]


def test_writer_continues_behind_what_was_there(tmp_path: Path) -> None:
    first = open_writer(tmp_path)
    append(first, "a", "b")
    first.close()
    second = open_writer(tmp_path)
    assert (second.events, second.end) == (4, first.end)
    append(second, "c")
    assert names(read_all(tmp_path)) == ["a", "b", "c"]
    last = last_chunk(tmp_path)
    assert last is not None
    assert last.number == 3


def test_writer_that_rested_goes_on_in_its_segment(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, "interval", segment_bytes=10_000)
    append(writer, "a")
    assert is_open(list_segments(tmp_path)[0].path)
    writer.rest()
    assert not is_open(list_segments(tmp_path)[0].path)
    append(writer, "b")
    writer.sync()
    assert names(read_all(tmp_path)) == ["a", "b"]
    assert len(list_segments(tmp_path)) == 1
    writer.close()


def test_unflushed_chunks_are_written_again_when_the_disk_fails(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, "interval")
    append(writer, "a")
    writer.sync()
    append(writer, "b")
    break_flushing(list_segments(tmp_path)[-1].path)
    writer.sync()
    append(writer, "d")
    found = read_all(tmp_path)
    assert names(found) == ["a", "b", "b", "d"]
    numbers = [each.head.number for each in found if isinstance(each, Chunk)]
    assert numbers == [1, 2, 2, 3]


def test_chunks_that_could_not_be_written_again_are_not_forgotten(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, "interval")
    append(writer, "a")
    break_flushing(list_segments(tmp_path)[-1].path)
    with no_more_files(), pytest.raises(OSError, match="Too many open files"):
        writer.sync()
    assert names(read_all(tmp_path)) == ["a"]
    append(writer, "b")
    writer.sync()
    assert sorted(names(read_all(tmp_path))) == ["a", "a", "b"]
    writer.close()


def test_segment_whose_second_flush_fails_takes_nothing_more(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, "interval", segment_bytes=10_000)
    append(writer, "a")
    break_flushing(list_segments(tmp_path)[-1].path)
    flushes = count(1)

    def fail_the_second(frame: FrameType, event: str, call: object) -> None:
        if event == "c_call" and call is os.fdatasync and next(flushes) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    sys.setprofile(fail_the_second)
    with pytest.raises(OSError, match="Input/output error"):
        writer.sync()
    segments = list_segments(tmp_path)
    append(writer, "b")
    # A flush of the one with the second copy may succeed now and mean nothing.
    assert len(list_segments(tmp_path)) == len(segments) + 1
    writer.sync()
    assert sorted(names(read_all(tmp_path))) == ["a", "a", "a", "b"]
    writer.close()


@pytest.mark.parametrize("fsync", ["off", "interval", "each"])
def test_memory_of_a_chunk_is_free_once_it_is_flushed(tmp_path: Path, fsync: Fsync) -> None:
    writer = open_writer(tmp_path, fsync)
    body = bytes(1000)
    before = sys.getrefcount(body)
    writer.append(b"", body, 0)
    writer.sync()
    assert sys.getrefcount(body) == before
    writer.close()


def test_much_that_is_not_flushed_does_not_wait_for_the_interval(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, "interval")
    flushed = threading.Event()

    def sync() -> None:
        writer.sync()
        flushed.set()

    syncer = Syncer(sync, 3600, pytest.fail, due=writer.flush_due)
    syncer.start()
    append(writer, "a")
    assert not writer.flush_due.is_set()
    writer.append(b"", bytes(FLUSH_BYTES), 0)
    assert flushed.wait(60)
    syncer.stop()
    writer.close()


def test_chunk_that_is_written_but_not_flushed_is_not_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, "each")

    def fail_to_flush(frame: FrameType, event: str, call: object) -> None:
        if event == "c_call" and call is os.fdatasync:
            sys.setprofile(None)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    writer.append(b"", b"", 0)
    with no_more_files():
        sys.setprofile(fail_to_flush)
        # Whoever tried again would write it twice.
        append(writer, "a")
    assert writer.events == 2
    writer.sync()
    chunks = [each for each in read_all(tmp_path) if isinstance(each, Chunk)]
    assert [each.head.number for each in chunks] == [1, 2, 2]


def test_flush_says_nothing_about_chunks_that_came_during_it(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, "interval", segment_bytes=10_000)
    append(writer, "a")
    begun, goes_on = threading.Event(), threading.Event()

    def stop_after_flush(frame: FrameType, event: str, call: object) -> None:
        if event == "c_return" and call is os.fdatasync:
            begun.set()
            goes_on.wait()

    def sync_slowly() -> None:
        sys.setprofile(stop_after_flush)
        writer.sync()

    threads = [threading.Thread(target=sync_slowly), threading.Thread(target=writer.sync)]
    threads[0].start()
    begun.wait()
    threads[1].start()
    threads[1].join(0.3)
    append(writer, "b")
    break_flushing(list_segments(tmp_path)[-1].path)
    goes_on.set()
    for thread in threads:
        thread.join()
    writer.sync()
    assert names(read_all(tmp_path)) == ["a", "b", "b"]


def test_passed_segments_are_deleted_but_the_last(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append(writer, *"abcdefgh")
    segments = list_segments(tmp_path)
    assert delete_before(tmp_path, segments[2].base) == 2
    assert list_segments(tmp_path) == segments[2:]
    assert delete_before(tmp_path, writer.end) == len(segments) - 3
    assert list_segments(tmp_path) == segments[-1:]
    assert read_all(tmp_path)
