"""Slices: compressed files of recorded lines, read piece by piece.

A line is a 28-character time, a space and the venue's message; an empty line marks a disconnect
of the recorder. A piece is `bytes` of whole lines, about 256 KiB, and ends with a newline.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import zstandard
from isal import igzip_lib

from tardis_machine.model.errors import SliceError
from tardis_machine.model.time import ms_text
from tardis_machine.sources.zstd_frames import ends_inside_frame

PIECE_BYTES = 256 * 1024
SMALL_PIECE_BYTES = 16 * 1024
"""Smallest piece: what a reader holds, and how long it works on it, is in proportion to it."""

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longest line; the largest snapshots of books that exchanges send have a few megabytes."""

# Market data shrinks about eight times, so this much input makes one piece.
_INPUT_BYTES = 32 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_MINUTE_DIGITS = len("2019-06-01T00:05")
# The stub of isal declares its exception class as an instance.
_IsalError = cast("type[Exception]", igzip_lib.IsalError)


def read_slice(path: Path, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a slice in pieces; a last line without a newline is dropped."""
    try:
        with _open_file(path) as file:
            yield from whole_lines(decompress(file, path.suffix, piece_bytes))
    except (OSError, SliceError) as error:
        raise SliceError(f"Slice {path} cannot be read: {error}") from error


def _open_file(path: Path) -> BinaryIO:
    """Open a regular file; a pipe would block the reader, and every other with it."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise SliceError("It is not a regular file")
    return file


def decompress(file: BinaryIO, suffix: str, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """Yield the content of a `.zst` or `.gz` file in pieces."""
    try:
        read = _decompress_zstd if suffix == ".zst" else _decompress_gzip
        yield from read(file, piece_bytes)
    except (zstandard.ZstdError, _IsalError) as error:
        raise SliceError(str(error)) from error


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut pieces after their last newline and carry what follows to the next one."""
    carried: list[bytes] = []
    carried_bytes = 0
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if not cut:
            carried.append(piece)
            carried_bytes += len(piece)
            if carried_bytes > MAX_LINE_BYTES:
                raise SliceError(f"A line has more than {MAX_LINE_BYTES} bytes")
            continue
        whole = [b"".join((*carried, memoryview(piece)[:cut]))]
        carried = [piece[cut:]]
        carried_bytes = len(piece) - cut
        # Handed over, not kept: who waits for a slow client holds as little as possible.
        del piece
        yield whole.pop()


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


def _decompress_zstd(file: BinaryIO, piece_bytes: int) -> Iterator[bytes]:
    """Read across frames: a slice of several minutes has one for each."""
    decompressor = zstandard.ZstdDecompressor()
    # It gives no more than it is asked for, however much a few bytes of input expand to.
    reader = decompressor.stream_reader(
        file, read_size=min(_INPUT_BYTES, piece_bytes), read_across_frames=True, closefd=False
    )
    while piece := reader.read(piece_bytes):
        yield piece
    if ends_inside_frame(file):
        raise SliceError("Truncated zstd frame")


def _decompress_gzip(file: BinaryIO, piece_bytes: int) -> Iterator[bytes]:
    """Read all members; a truncated tail and trailing bytes are tolerated."""
    member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    while data := file.read(_INPUT_BYTES):
        while True:
            yield member.decompress(data, piece_bytes)
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
