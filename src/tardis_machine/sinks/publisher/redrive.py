"""Events to be sent once more: of dead letters, of segments, of whole streams of the files bus."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tardis_machine.buses.files.log import (
    CLOSED_SUFFIX,
    RECORD_HEADER,
    Segment,
    durable_end,
    pack_record,
    payloads_of,
    segments,
)
from tardis_machine.model.errors import RequestError
from tardis_machine.sinks.dead_letters.files import (
    SUFFIX,
    DeadLetter,
    letter_files,
    read_letters,
)

LETTERS_AT_ONCE = 500
BYTES_AT_ONCE = 1_048_576


class Redrive(NamedTuple):
    """Events to be sent again."""

    records: bytes
    """Packed as in a log."""
    bus: str = ""
    """The bus they were for, under their old destination; empty: every bus, routed anew."""


def buses_in(path: Path) -> set[str]:
    """Return the buses whose dead letters a file or a directory holds."""
    return {letter.bus for file in _letter_files(path) for letter in read_letters(file)}


def find_redrives(path: Path) -> Iterator[Redrive]:
    """Return the events of dead letters, a segment or a stream's directory, read as they are taken.

    Raises:
        RequestError: the path is none of these.
    """
    if letters := _letter_files(path):
        return chain.from_iterable(map(_letter_redrives, letters))
    if not path.exists():
        raise RequestError(f"{path} does not exist.")
    if path.is_dir():
        return _stream_redrives(path, _durable_segments(path))
    if wanted := [each for each in segments(path.parent) if each.path == path]:
        return _stream_redrives(path.parent, wanted)
    raise RequestError(
        f"{path} is not a dead-letter file ({SUFFIX}), a segment ({CLOSED_SUFFIX}) or a "
        "directory of either."
    )


def _letter_files(path: Path) -> list[Path]:
    """Return the dead-letter files that a path names."""
    if path.is_dir():
        return letter_files(path)
    return [path] if path.suffix == SUFFIX and path.is_file() else []


def _durable_segments(directory: Path) -> list[Segment]:
    end = durable_end(directory)
    found = [segment for segment in segments(directory) if segment.number <= end.segment]
    if not found:
        raise RequestError(
            f"{directory} contains neither segments ({CLOSED_SUFFIX}) nor dead letters ({SUFFIX})."
        )
    return found


def _stream_redrives(directory: Path, wanted: Sequence[Segment]) -> Iterator[Redrive]:
    end = durable_end(directory)
    for segment in wanted:
        is_last = segment.number == end.segment
        yield from _segment_redrives(segment.path, end.byte if is_last else None)


def _segment_redrives(path: Path, end_byte: int | None) -> Iterator[Redrive]:
    with path.open("rb") as file:
        for _, _, payload in payloads_of(file, 0, end_byte):
            for records in split_records(payload):
                yield Redrive(records)


def split_records(payload: bytes) -> Iterator[bytes]:
    """Cut the records of a block, which may be large, into parts that need little memory."""
    start = place = 0
    while place < len(payload):
        end = place + RECORD_HEADER.size + sum(RECORD_HEADER.unpack_from(payload, place))
        if end - start > BYTES_AT_ONCE and place > start:
            yield payload[start:place]
            start = place
        place = end
    if place > start:
        yield payload[start:]


def _letter_redrives(path: Path) -> Iterator[Redrive]:
    """Yield letters of one bus after another, each to its old destination."""
    letters: dict[str, list[bytes]] = {}
    for letter in read_letters(path):
        waiting = letters.setdefault(letter.bus, [])
        waiting.append(_packed(letter))
        if len(waiting) >= LETTERS_AT_ONCE:
            yield Redrive(b"".join(letters.pop(letter.bus)), letter.bus)
    for bus, waiting in letters.items():
        yield Redrive(b"".join(waiting), bus)


def _packed(letter: DeadLetter) -> bytes:
    record = letter.record()
    return pack_record(
        record.destination.encode(), record.key.encode(), record.packed_headers, record.envelope
    )
