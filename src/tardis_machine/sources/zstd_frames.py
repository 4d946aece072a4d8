"""The frames of a zstd file, walked by their headers.

The streaming decoder says nothing when a file ends inside a frame. Headers tell where each frame
ends, and reading them costs next to nothing.
"""

import os
from typing import BinaryIO

import zstandard

_MAX_HEADER_BYTES = 18
_BLOCK_HEADER_BYTES = 3
_CHECKSUM_BYTES = 4
_REPEATED_BYTE = 1
_SKIPPABLE_HEADER_BYTES = 8
_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"


def ends_inside_frame(file: BinaryIO) -> bool:
    """Say whether a file that could be decoded so far lacks the end of its last frame."""
    size = file.seek(0, os.SEEK_END)
    position = 0
    while position < size:
        end = _frame_end(file, position)
        if end is None or end > size:
            return True
        position = end
    return size == 0


def _frame_end(file: BinaryIO, start: int) -> int | None:
    """Return where a frame ends, None when its headers do."""
    file.seek(start)
    header = file.read(_MAX_HEADER_BYTES)
    if header[1:4] == _SKIPPABLE_MAGIC:
        return start + _SKIPPABLE_HEADER_BYTES + int.from_bytes(header[4:8], "little")
    try:
        frame = zstandard.get_frame_parameters(header)
        position = start + zstandard.frame_header_size(header)
    except zstandard.ZstdError:
        return None
    is_last = False
    while not is_last:
        file.seek(position)
        block = file.read(_BLOCK_HEADER_BYTES)
        if len(block) < _BLOCK_HEADER_BYTES:
            return None
        value = int.from_bytes(block, "little")
        is_last, kind, size = bool(value & 1), value >> 1 & 3, value >> 3
        position += _BLOCK_HEADER_BYTES + (1 if kind == _REPEATED_BYTE else size)
    return position + (_CHECKSUM_BYTES if frame.has_checksum else 0)
