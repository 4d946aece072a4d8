"""Slices: compressed files of recorded lines, read piece by piece.

A line is a 28-character time, a space and the venue's message; an empty line marks a disconnect
of the recorder. A piece is `bytes` of whole lines, about 256 KiB, and ends with a newline.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import zstandard
from isal import igzip_lib

from tardis_machine.model.errors import SliceError
from tardis_machine.model.time import ms_text

PIECE_BYTES = 256 * 1024
# Market data shrinks about eight times, so this much input makes one piece.
_INPUT_BYTES = 32 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_MINUTE_DIGITS = len("2019-06-01T00:05")
# The stub of isal declares its exception class as an instance.
_IsalError = cast("type[Exception]", igzip_lib.IsalError)


def read_slice(path: Path) -> Iterator[bytes]:
    """Yield the lines of a slice in pieces; a last line without a newline is dropped."""
    try:
        with path.open("rb") as file:
            yield from whole_lines(decompress(file, path.suffix))
    except (OSError, SliceError) as error:
        raise SliceError(f"Slice {path} cannot be read: {error}") from error


def decompress(file: BinaryIO, suffix: str) -> Iterator[bytes]:
    """Yield the content of a `.zst` or `.gz` file in pieces."""
    try:
        yield from _decompress_zstd(file) if suffix == ".zst" else _decompress_gzip(file)
    except (zstandard.ZstdError, _IsalError) as error:
        raise SliceError(str(error)) from error


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut pieces after their last newline and carry what follows to the next one."""
    carried: list[bytes | memoryview] = []
    for piece in _bounded(pieces):
        cut = piece.rfind(b"\n") + 1
        if not cut:
            carried.append(piece)
            continue
        view = memoryview(piece)
        yield b"".join((*carried, view[:cut]))
        carried = [view[cut:]]


def lines_between(pieces: Iterable[bytes], start_us: int, end_us: int) -> Iterator[bytes]:
    """Yield only the lines of the whole minutes from `start_us` up to `end_us`.

    Disconnect markers have no time. Those at either border are kept: a repeated one does no
    harm, a lost one leaves a stale book.
    """
    start, end = _minute_bytes(start_us), _minute_bytes(end_us)
    held, has_started = b"", False
    for piece in pieces:
        if not has_started:
            joined = held + piece
            piece = joined[_end_of_lines_before(start, joined) :]  # noqa: PLW2901
            has_started = bool(piece.strip(b"\n"))
            held = piece
        if has_started:
            cut = _skip_markers(piece, _end_of_lines_before(end, piece))
            if cut:
                yield piece[:cut]
            if cut < len(piece):
                return


def skip_bytes(pieces: Iterable[bytes], count: int) -> Iterator[bytes]:
    """Leave out the first `count` bytes."""
    for piece in pieces:
        if count < len(piece):
            yield piece[count:]
        count = max(0, count - len(piece))


def _decompress_zstd(file: BinaryIO) -> Iterator[bytes]:
    """Read across frames: a slice of several minutes has one for each."""
    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    is_inside_frame = True
    while data := file.read(_INPUT_BYTES):
        while data:
            is_inside_frame = True
            yield frame.decompress(data)
            data = b""
            if frame.eof:
                data = frame.unused_data
                frame, is_inside_frame = decompressor.decompressobj(), False
    if is_inside_frame:
        raise SliceError("Truncated zstd frame")


def _decompress_gzip(file: BinaryIO) -> Iterator[bytes]:
    """Read all members; a truncated tail and trailing bytes are tolerated."""
    member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    while data := file.read(_INPUT_BYTES):
        while True:
            yield member.decompress(data, PIECE_BYTES)
            data = b""
            if member.eof:
                data = member.unused_data
                if len(data) < len(_GZIP_MAGIC):
                    data += file.read(_INPUT_BYTES)
                if not data.startswith(_GZIP_MAGIC):
                    return
                member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
            elif member.needs_input:
                break


def _bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Split pieces that came out far larger than expected, so that no reader stalls on one."""
    for piece in pieces:
        if len(piece) <= 2 * PIECE_BYTES:
            yield piece
        else:
            for start in range(0, len(piece), PIECE_BYTES):
                yield piece[start : start + PIECE_BYTES]


def _minute_bytes(us: int) -> bytes:
    return ms_text(us // 1000)[:_MINUTE_DIGITS].encode()


def _end_of_lines_before(minute: bytes, piece: bytes) -> int:
    """Return the offset after the last line that is earlier than `minute`."""
    end = len(piece)
    while end:
        start = piece.rfind(b"\n", 0, end - 1) + 1
        is_marker = start == end - 1
        if not is_marker and piece[start : start + _MINUTE_DIGITS] < minute:
            return end
        end = start
    return 0


def _skip_markers(piece: bytes, offset: int) -> int:
    while piece[offset : offset + 1] == b"\n":
        offset += 1
    return offset
