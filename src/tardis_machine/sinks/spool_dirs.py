"""Directories of spools: each process has its own, and takes over what dead ones left."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from tardis_machine.buses.files.log import segment_path, segments
from tardis_machine.model.errors import SinkUnavailableError
from tardis_machine.sinks.log_writer import DirectoryLock, LogWriter, close_left_segment
from tardis_machine.sinks.shelf import Shelf
from tardis_machine.sinks.spool import (
    SEGMENT_BYTES,
    SEGMENTS_AT_LEAST,
    Spool,
    read_cursor,
    write_cursor,
)
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

SHELF = "shelf"
LOWEST_NUMBER = 1_000_000
"""Segments are numbered from here on, which leaves room for what must be read before them."""


def open_spool(
    root: Path,
    max_bytes: int,
    on_lost: Callable[[int], None] = lambda _: None,
    segment_bytes: int = SEGMENT_BYTES,
) -> Spool:
    """Open the first spool below `root` that no other process has, with all that dead ones left.

    Args:
        root: directory of the bus.
        max_bytes: size of the spool.
        on_lost: called with the number of events that turn out to be unreadable.
        segment_bytes: size of its segments; smaller where the spool is.

    Raises:
        OSError: the directory cannot be used.
    """
    writer = _first_free(root, min(segment_bytes, max_bytes // SEGMENTS_AT_LEAST))
    writer.number_after(LOWEST_NUMBER)
    _unshelve(writer.directory, writer.end.segment)
    for other in _spool_directories(root):
        if other != writer.directory:
            _take_over(other, writer)
    return Spool(writer, max_bytes, on_lost)


def open_shelf(
    spool: Spool, max_bytes: int, on_lost: Callable[[int], None] = lambda _: None
) -> Shelf:
    """Open the shelf beside a spool, which has read what an earlier one held."""
    segment_bytes = min(SEGMENT_BYTES, max_bytes // SEGMENTS_AT_LEAST)
    writer = LogWriter(spool.directory / SHELF, segment_bytes=segment_bytes)
    return Shelf(writer, max_bytes, on_lost)


def _first_free(root: Path, segment_bytes: int) -> LogWriter:
    for number in count():
        with suppress(SinkUnavailableError):
            return LogWriter(root / str(number), segment_bytes=segment_bytes)
    raise AssertionError("unreachable: numbers do not end")


def _spool_directories(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        if path.is_dir() and path.name.isdigit():
            yield path


def _unshelve(directory: Path, last: int) -> None:
    """Move what a dead process had on its shelf before everything else: it is the oldest."""
    left = segments(directory / SHELF)
    if not left:
        return
    known = segments(directory)
    first = (known[0].number if known else last + 1) - len(left)
    for number, segment in enumerate(left, first):
        if not segment.is_closed:
            close_left_segment(segment)
        path = segment_path(directory / SHELF, segment.number, is_closed=True)
        path.rename(segment_path(directory, number, is_closed=True))


def _take_over(other: Path, writer: LogWriter) -> None:
    """Move the segments of a dead process behind ours."""
    left = segments(other) or segments(other / SHELF)
    if not left:
        return
    try:
        lock = DirectoryLock(other)
    except SinkUnavailableError:
        return
    try:
        _unshelve(other, LOWEST_NUMBER)
        _move_segments(other, writer)
    finally:
        lock.release()
    log.info("took over the spool of a dead process", directory=str(other), segments=len(left))


def _move_segments(other: Path, writer: LogWriter) -> None:
    for segment in segments(other):
        if not segment.is_closed:
            close_left_segment(segment)
    theirs, ours = read_cursor(other), read_cursor(writer.directory)
    known = segments(writer.directory)
    number = first = max(writer.end.segment, known[-1].number if known else 0)
    moves = []
    for number, segment in enumerate(segments(other), first + 1):
        if start := theirs.get(segment.number):
            ours[number] = start
        moves.append((segment.path, segment_path(writer.directory, number, is_closed=True)))
    # The cursor first: a crash in between then skips nothing, since the numbers are new.
    write_cursor(writer.directory, ours)
    for source, destination in moves:
        source.rename(destination)
    writer.number_after(number)
