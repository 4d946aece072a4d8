"""The reading side of a chunk log: chunks in their order, past whatever cannot be read."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tardis_machine.sinks.storage.chunks import (
    CODEC_NONE,
    HEAD_BYTES,
    VERSION,
    ChunkHead,
    find_head,
    is_sound,
    parse_head,
)
from tardis_machine.sinks.storage.segments import Segment, list_segments


class Chunk(NamedTuple):
    """One chunk as it was read."""

    head: ChunkHead
    context: bytes
    body: bytes
    start: int
    end: int


class BadBytes(NamedTuple):
    """A stretch of a log that cannot be read."""

    start: int
    end: int
    data: bytes
    reason: str


class ChunkReader:
    """Reads the log in a directory from any offset where a chunk begins.

    It keeps one segment open. Chunks are written whole, so one that is cut off at the end of the
    last segment is still being written, or its writer died before it was accepted.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._segment: Segment | None = None
        self._descriptor: int | None = None

    def read(self, offset: int) -> Chunk | BadBytes | None:
        """Return the chunk at an offset, or what is in its place; None at the end."""
        if not self._seek(offset):
            return self._gap(offset)
        assert self._segment is not None
        assert self._descriptor is not None
        place = offset - self._segment.base
        data = os.pread(self._descriptor, HEAD_BYTES, place)
        head = parse_head(data)
        if head is None:
            return self._bad_head(offset, len(data))
        size = head.context_bytes + head.body_bytes
        content = os.pread(self._descriptor, size, place + HEAD_BYTES)
        if len(content) < size:
            return self._cut_off(offset, HEAD_BYTES + len(content))
        end = offset + head.total_bytes
        if head.version != VERSION or head.codec != CODEC_NONE:
            reason = f"version {head.version} with codec {head.codec} is not known"
            return BadBytes(offset, end, data + content, reason)
        if not is_sound(head, content):
            return BadBytes(offset, end, data + content, "its checksum is wrong")
        context = content[: head.context_bytes]
        return Chunk(head, context, content[head.context_bytes :], offset, end)

    def head_at(self, offset: int) -> ChunkHead | None:
        """Return the head of the chunk at an offset, if there is a sound one."""
        if not self._seek(offset):
            return None
        assert self._segment is not None
        assert self._descriptor is not None
        return parse_head(os.pread(self._descriptor, HEAD_BYTES, offset - self._segment.base))

    def bytes_of(self, chunk: Chunk) -> bytes:
        """Return a chunk as it is in the log, head included."""
        if not self._seek(chunk.start):
            return b""
        assert self._segment is not None
        assert self._descriptor is not None
        place = chunk.start - self._segment.base
        return os.pread(self._descriptor, chunk.end - chunk.start, place)

    def close(self) -> None:
        """Close the open segment."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._segment = None

    def _seek(self, offset: int) -> bool:
        """Open the segment that has an offset; say whether there are bytes at it."""
        if self._has(offset):
            return True
        segments = list_segments(self._directory)
        containing = [segment for segment in segments if segment.base <= offset]
        if not containing:
            return False
        if containing[-1] != self._segment:
            self.close()
            self._descriptor = os.open(containing[-1].path, os.O_RDONLY | os.O_CLOEXEC)
            self._segment = containing[-1]
        return self._has(offset)

    def _has(self, offset: int) -> bool:
        if self._segment is None or self._descriptor is None or offset < self._segment.base:
            return False
        return offset < self._segment.base + os.fstat(self._descriptor).st_size

    def _gap(self, offset: int) -> Chunk | BadBytes | None:
        """Return what is missing of a segment that another one follows; None at the end."""
        segments = list_segments(self._directory)
        later = [segment.base for segment in segments if segment.base > offset]
        if len(later) in (0, len(segments)):
            return None
        if self._seek(offset):
            # It was written since.
            return self.read(offset)
        return BadBytes(offset, later[0], b"", "the end of a segment is missing")

    def _bad_head(self, offset: int, found_bytes: int) -> Chunk | BadBytes | None:
        if found_bytes < HEAD_BYTES:
            return self._cut_off(offset, found_bytes)
        assert self._segment is not None
        assert self._descriptor is not None
        place = offset - self._segment.base
        rest = os.pread(self._descriptor, os.fstat(self._descriptor).st_size - place, place)
        end = find_head(rest, 1)
        return BadBytes(offset, offset + end, rest[:end], "it does not begin with a sound head")

    def _cut_off(self, offset: int, found_bytes: int) -> Chunk | BadBytes | None:
        """Return what is left of a chunk that another segment follows; None at the end."""
        assert self._segment is not None
        assert self._descriptor is not None
        if list_segments(self._directory)[-1] == self._segment:
            return None
        if self._has(offset + found_bytes):
            # It was written to its end since, and the next segment begun.
            return self.read(offset)
        place = offset - self._segment.base
        data = os.pread(self._descriptor, found_bytes, place)
        return BadBytes(offset, offset + len(data), data, "it was not written to its end")


def read_heads(directory: Path, start: int = 0) -> Iterator[tuple[int, ChunkHead]]:
    """Yield offset and head of the chunks from an offset on, without their content."""
    reader = ChunkReader(directory)
    try:
        segments = list_segments(directory)
        offset = max(start, segments[0].base) if segments else start
        while True:
            head = reader.head_at(offset)
            if head is not None:
                yield offset, head
                offset += head.total_bytes
                continue
            found = reader.read(offset)
            if found is None:
                return
            offset = found.end
    finally:
        reader.close()


def last_chunk(directory: Path) -> ChunkHead | None:
    """Return the head of the last whole chunk of a log."""
    for segment in reversed(list_segments(directory)):
        end = segment.base + segment.path.stat().st_size
        whole = [
            head
            for offset, head in read_heads(directory, segment.base)
            if offset < end and offset + head.total_bytes <= end
        ]
        if whole:
            return whole[-1]
    return None


def first_offset(directory: Path) -> int:
    """Return where the log begins, after what was deleted."""
    with suppress(IndexError):
        return list_segments(directory)[0].base
    return 0
