"""Chunk logs for tests: a clock, a writer, and everything a reader finds."""

from itertools import count
from pathlib import Path

from tardis_machine.sinks.storage.reader import BadBytes, Chunk, ChunkReader, first_offset
from tardis_machine.sinks.storage.writer import ChunkWriter, Fsync

SEGMENT_BYTES = 150


def open_writer(
    directory: Path, fsync: Fsync = "off", segment_bytes: int = SEGMENT_BYTES
) -> ChunkWriter:
    """Open a log with small segments and a clock that ticks."""
    ticks = count(1_700_000_000_000_000)
    return ChunkWriter(directory, lambda: next(ticks), fsync, segment_bytes)


def append(writer: ChunkWriter, *names: str) -> None:
    """Append a chunk of two events for each name."""
    for name in names:
        writer.append(b"context", f"{name} 1\n{name} 2\n".encode(), 2)


def read_all(directory: Path, offset: int | None = None) -> list[Chunk | BadBytes]:
    """Return everything from an offset on, by default from the beginning."""
    reader = ChunkReader(directory)
    place = first_offset(directory) if offset is None else offset
    found = []
    while (each := reader.read(place)) is not None:
        found.append(each)
        place = each.end
    reader.close()
    return found


def names(found: list[Chunk | BadBytes]) -> list[str]:
    """Return the names of chunks, and the reasons of what cannot be read."""
    return [
        each.body.split()[0].decode() if isinstance(each, Chunk) else each.reason for each in found
    ]
