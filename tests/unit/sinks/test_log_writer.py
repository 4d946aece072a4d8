"""Logs as they are written, and what crashes may do to them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tardis_machine.buses.files.log import (
    BLOCK_HEADER,
    LogError,
    Position,
    durable_end,
    pack_block,
    pack_headers,
    pack_record,
    read_blocks,
    segments,
)
from tardis_machine.model.errors import SinkUnavailableError
from tardis_machine.sinks.log_writer import LogWriter, remove_old_segments


def payload(*texts: str) -> bytes:
    return b"".join(
        pack_record(b"bronze", b"key", pack_headers({"eventId": text}), text.encode())
        for text in texts
    )


def texts_of(directory: Path) -> list[str]:
    end = durable_end(directory)
    return [
        record.envelope.decode()
        for segment in segments(directory)
        for block in read_blocks(
            segment.path, end_byte=end.byte if segment.number == end.segment else None
        )
        for record in block.records
    ]


def make_writer(directory: Path, **options: object) -> LogWriter:
    return LogWriter(directory, **{"segment_bytes": 1 << 20, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_blocks_are_read_from_any_of_their_positions(tmp_path: Path, codec: str) -> None:
    writer = make_writer(tmp_path, codec=codec)
    middle = writer.append(payload("a", "b"))
    writer.append(payload("c"))
    writer.close()
    (segment,) = segments(tmp_path)
    assert segment.is_closed
    (block,) = read_blocks(segment.path, middle.byte)
    assert [record.envelope for record in block.records] == [b"c"]
    (block,) = read_blocks(segment.path, 0, middle.byte)
    assert [record.envelope for record in block.records] == [b"a", b"b"]


def test_reader_sees_only_what_was_flushed(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    writer.append(payload("a"))
    assert durable_end(tmp_path) == Position(0, 0)
    writer.sync()
    assert durable_end(tmp_path) == writer.end == writer.durable_end
    writer.append(payload("b"))
    assert texts_of(tmp_path) == ["a"]
    writer.close()
    assert texts_of(tmp_path) == ["a", "b"]


def test_full_segment_is_closed_and_the_next_one_begun(tmp_path: Path) -> None:
    writer = make_writer(tmp_path, segment_bytes=60)
    for text in ("a", "b", "c", "d"):
        writer.append(payload(text))
        writer.sync()
    assert [segment.number for segment in segments(tmp_path)] == [1, 2]
    assert texts_of(tmp_path) == ["a", "b", "c", "d"]
    writer.close()


def test_old_segment_is_closed(tmp_path: Path) -> None:
    writer = make_writer(tmp_path, segment_age_seconds=0.0)
    writer.append(payload("a"))
    writer.roll_if_old()
    assert [segment.is_closed for segment in segments(tmp_path)] == [True]
    writer.close()


@pytest.mark.parametrize("cut", [1, 5, BLOCK_HEADER.size, BLOCK_HEADER.size + 3])
def test_torn_tail_is_cut_when_the_log_is_opened_again(tmp_path: Path, cut: int) -> None:
    writer = make_writer(tmp_path)
    end = writer.append(payload("a", "b"))
    writer.sync()
    block = pack_block(payload("lost"))
    (segment,) = segments(tmp_path)
    with segment.path.open("ab") as file:
        file.write(block[:cut])
    # A copy of the directory is what a kill leaves.
    after = tmp_path.with_name(tmp_path.name + "-after-kill")
    shutil.copytree(tmp_path, after)
    writer.close()
    again = make_writer(after)
    (left,) = segments(after)
    assert left.is_closed
    assert left.path.stat().st_size == end.byte
    again.append(payload("c"))
    again.close()
    assert texts_of(after) == ["a", "b", "c"]


def test_damaged_block_in_a_closed_segment_is_reported(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    writer.append(payload("a"))
    writer.close()
    (segment,) = segments(tmp_path)
    content = bytearray(segment.path.read_bytes())
    content[-1] ^= 1
    segment.path.write_bytes(content)
    with pytest.raises(LogError, match="corrupt"):
        list(read_blocks(segment.path))
    segment.path.write_bytes(b"\x07" + bytes(20))
    with pytest.raises(LogError, match="known version"):
        list(read_blocks(segment.path))


def test_second_writer_is_refused_until_the_first_has_gone(tmp_path: Path) -> None:
    first = make_writer(tmp_path)
    with pytest.raises(SinkUnavailableError, match="in use by another process"):
        make_writer(tmp_path)
    first.close()
    make_writer(tmp_path).close()


def test_number_of_a_removed_segment_is_not_used_again(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    writer.append(payload("a"))
    writer.close()
    assert len(remove_old_segments(tmp_path, keep_bytes=1)) == 1
    again = make_writer(tmp_path)
    again.append(payload("b"))
    again.close()
    assert [segment.number for segment in segments(tmp_path)] == [2]


def test_retention_removes_the_oldest_closed_segments_only(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    for text in ("a", "b", "c"):
        writer.append(payload(text))
        writer.roll()
    writer.append(payload("d"))
    writer.sync()
    size = segments(tmp_path)[0].path.stat().st_size
    remove_old_segments(tmp_path, keep_bytes=2 * size)
    assert texts_of(tmp_path) == ["b", "c", "d"]
    os.utime(segments(tmp_path)[0].path, (0, 0))
    remove_old_segments(tmp_path, keep_seconds=1000)
    assert texts_of(tmp_path) == ["c", "d"]
    writer.close()


FULL_DISK = """
import resource, sys
from pathlib import Path
from tardis_machine.sinks.log_writer import LogWriter

resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
writer = LogWriter(Path(sys.argv[1]), segment_bytes=1 << 20)
writer.append(b"x" * 3000)
try:
    writer.append(b"y" * 3000)
except OSError as error:
    print("failed", error.errno)
writer.append(b"z" * 500)
writer.close()
"""


def test_write_that_fails_halfway_leaves_no_trace(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("failed")
    (segment,) = segments(tmp_path)
    assert segment.path.stat().st_size == 2 * BLOCK_HEADER.size + 3500
