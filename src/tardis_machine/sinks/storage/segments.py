"""The segments of a log: files whose names say how many bytes of the log stand before them."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tardis_machine.sinks.storage.directory import SEGMENT_SUFFIX

IsPassed: TypeAlias = Callable[[int, int], bool]
"""Says whether a reader needs nothing of a log between two offsets."""


class Segment(NamedTuple):
    """One file of a log."""

    base: int
    path: Path


def segment_path(directory: Path, base: int) -> Path:
    """Return the name of the segment that begins at an offset."""
    return directory / f"{base:020d}{SEGMENT_SUFFIX}"


def list_segments(directory: Path) -> list[Segment]:
    """Return the segments of a log in their order."""
    paths = directory.glob(f"*{SEGMENT_SUFFIX}")
    return sorted(Segment(int(path.stem), path) for path in paths if path.stem.isdigit())


def end_of(directory: Path) -> int:
    """Return the offset behind everything that was written."""
    segments = list_segments(directory)
    return segments[-1].base + segments[-1].path.stat().st_size if segments else 0


def delete_before(directory: Path, offset: int) -> int:
    """Delete the segments that end at or before an offset, except the last; return how many."""
    segments = list_segments(directory)
    passed = [segment for segment, following in pairwise(segments) if following.base <= offset]
    for segment in passed:
        segment.path.unlink(missing_ok=True)
    return len(passed)


def delete_passed(directory: Path, readers: Sequence[IsPassed]) -> int:
    """Delete the segments that no reader needs, except the last; return how many."""
    if not readers:
        return 0
    pairs = pairwise(list_segments(directory))
    passed = [
        segment
        for segment, following in pairs
        if all(is_passed(segment.base, following.base) for is_passed in readers)
    ]
    for segment in passed:
        segment.path.unlink(missing_ok=True)
    return len(passed)


def delete_all(directory: Path) -> None:
    """Delete every segment of a log that has been read to its end."""
    for segment in list_segments(directory):
        segment.path.unlink(missing_ok=True)
