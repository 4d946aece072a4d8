"""Slices: decompression of both formats, whole lines, and cutting to minutes."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tardis_machine.model.errors import SliceError
from tardis_machine.sources.slices import (
    MAX_LINE_BYTES,
    PIECE_BYTES,
    decompress,
    lines_between,
    read_slice,
    whole_lines,
)
from tests.unit.sources.recorded import all_lines, lines, minute


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def noise_lines(size_bytes: int) -> bytes:
    """Return lines that hardly compress, so that a slice takes many reads."""
    return b"".join(os.urandom(50).hex().encode() + b"\n" for _ in range(size_bytes // 101))


@pytest.mark.parametrize(("name", "compress"), [("a.zst", zstd), ("a.gz", gzip.compress)])
def test_a_slice_of_several_frames_is_read_to_its_end(
    tmp_path: Path, name: str, compress: object
) -> None:
    assert callable(compress)
    content = [noise_lines(300_000), lines(1), noise_lines(700_000)]
    path = write(tmp_path, name, b"".join(map(compress, content)))
    pieces = list(read_slice(path))
    assert b"".join(pieces) == b"".join(content)
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert len(pieces) > 2


@pytest.mark.parametrize(("name", "compress"), [("a.zst", zstd), ("a.gz", gzip.compress)])
def test_pieces_stay_small_when_the_content_compresses_well(
    tmp_path: Path, name: str, compress: object
) -> None:
    assert callable(compress)
    content = lines(0) * 50_000
    pieces = list(read_slice(write(tmp_path, name, compress(content))))
    assert b"".join(pieces) == content
    assert max(map(len, pieces)) <= 2 * PIECE_BYTES + len(lines(0))


def test_a_last_line_without_newline_is_dropped(tmp_path: Path) -> None:
    path = write(tmp_path, "a.zst", zstd(lines(0) + b"2024-03-01T00:00:59.9999999Z {"))
    assert b"".join(read_slice(path)) == lines(0)


def test_a_line_longer_than_a_piece_stays_whole(tmp_path: Path) -> None:
    content = b"x" * (3 * PIECE_BYTES) + b"\n" + lines(0)
    path = write(tmp_path, "a.gz", gzip.compress(content))
    assert b"".join(read_slice(path)) == content


@pytest.mark.parametrize("kept", [0, 10, -10])
def test_truncated_zstd_is_an_error(tmp_path: Path, kept: int) -> None:
    path = write(tmp_path, "a.zst", zstd(noise_lines(200_000))[:kept])
    with pytest.raises(SliceError, match="Truncated zstd frame"):
        list(read_slice(path))


def test_truncated_second_frame_is_an_error_after_the_first(tmp_path: Path) -> None:
    path = write(tmp_path, "a.zst", zstd(lines(0)) + zstd(lines(1))[:-3])
    pieces = read_slice(path)
    assert next(pieces) == lines(0)
    with pytest.raises(SliceError, match=r"a\.zst cannot be read: Truncated"):
        list(pieces)


def test_truncated_gzip_gives_what_it_has(tmp_path: Path) -> None:
    content = noise_lines(500_000)
    got = b"".join(read_slice(write(tmp_path, "a.gz", gzip.compress(content)[:-100_000])))
    assert content.startswith(got)
    assert len(got) > 200_000


def test_bytes_after_the_last_gzip_member_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path, "a.gz", gzip.compress(lines(0)) + b"\0" * 100)
    assert b"".join(read_slice(path)) == lines(0)


@pytest.mark.parametrize("name", ["a.zst", "a.gz"])
def test_garbage_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(SliceError, match="cannot be read"):
        list(read_slice(write(tmp_path, name, b"this is not compressed data at all")))


def test_a_damaged_gzip_member_is_an_error(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(lines(0)))
    data[-6] ^= 0xFF
    with pytest.raises(SliceError, match="cannot be read"):
        list(read_slice(write(tmp_path, "a.gz", bytes(data))))


def test_a_missing_slice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SliceError, match="cannot be read"):
        list(read_slice(tmp_path / "a.zst"))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_slice_that_is_no_regular_file_is_an_error_at_once(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "a.zst")
    with pytest.raises(SliceError, match="cannot be read"):
        list(read_slice(tmp_path / "a.zst"))


@pytest.mark.parametrize("size", [1, 2, 7, 40, 1000])
def test_whole_lines_do_not_depend_on_where_pieces_end(size: int) -> None:
    content = b"\n" + lines(0) + b"\n\n" + lines(1) + b"unfinished"
    pieces = (content[start : start + size] for start in range(0, len(content), size))
    got = list(whole_lines(pieces))
    assert b"".join(got) == content.removesuffix(b"unfinished")
    assert all(piece.endswith(b"\n") for piece in got)


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_lines_between_keeps_the_minutes_asked_for(size: int) -> None:
    content = all_lines(0, 10).splitlines(keepends=True)
    pieces = [b"".join(content[start : start + size]) for start in range(0, len(content), size)]
    assert b"".join(lines_between(pieces, minute(3), minute(6))) == all_lines(3, 6)
    assert b"".join(lines_between(pieces, minute(0), minute(1))) == all_lines(0, 1)
    assert b"".join(lines_between(pieces, minute(9), minute(10))) == all_lines(9, 10)
    assert b"".join(lines_between(pieces, minute(11), minute(12))) == b""


@pytest.mark.parametrize("size", [1, 2, 100])
def test_lines_between_keeps_disconnects_inside_and_at_the_borders(size: int) -> None:
    content = [*all_lines(0, 1).splitlines(keepends=True), b"\n", lines(1), b"\n", lines(2)]
    content += [b"\n", lines(3)]
    pieces = [b"".join(content[start : start + size]) for start in range(0, len(content), size)]
    expected = b"\n" + lines(1) + b"\n" + lines(2) + b"\n"
    assert b"".join(lines_between(pieces, minute(1), minute(3))) == expected


def bomb(megabytes: int) -> bytes:
    """Compress one endless line; a few hundred bytes expand to many megabytes."""
    zeros = b"0" * 1_000_000
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    parts = [compressor.compress(zeros) for _ in range(megabytes)]
    return b"".join([*parts, compressor.flush()])


def test_output_stays_bounded_when_a_few_bytes_expand_to_many_megabytes(tmp_path: Path) -> None:
    path = write(tmp_path, "a.zst", bomb(100))
    assert path.stat().st_size < 20_000
    with path.open("rb") as file:
        assert max(map(len, decompress(file, ".zst"))) <= PIECE_BYTES


@pytest.mark.parametrize("name", ["a.zst", "a.gz"])
def test_endless_line_is_an_error_before_it_fills_the_memory(tmp_path: Path, name: str) -> None:
    size = MAX_LINE_BYTES // 1_000_000 + 20
    data = bomb(size) if name == "a.zst" else gzip.compress(b"0" * (size * 1_000_000), 1)
    path = write(tmp_path, name, data)
    with pytest.raises(SliceError, match="A line has more than 67108864 bytes"):
        list(read_slice(path))


@pytest.mark.parametrize("with_checksum", [True, False])
def test_every_cut_of_a_file_of_several_frames_is_noticed(
    tmp_path: Path, with_checksum: bool
) -> None:
    compressor = zstandard.ZstdCompressor(write_checksum=with_checksum)
    frames = [compressor.compress(content) for content in (lines(0), b"a\n" * 500, b"")]
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    content = frames[0] + skippable + frames[1] + frames[2]
    path = write(tmp_path, "a.zst", content)
    assert b"".join(read_slice(path)) == lines(0) + b"a\n" * 500
    ends = {len(frames[0]), len(frames[0] + skippable), len(content) - len(frames[2])}
    for kept in range(1, len(content)):
        path.write_bytes(content[:kept])
        if kept in ends:
            list(read_slice(path))
        else:
            with pytest.raises(SliceError):
                list(read_slice(path))
