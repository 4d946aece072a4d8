"""Events to be sent once more: of dead letters, of segments, of whole streams of the files bus."""

from collections.abc import Iterator
from pathlib import Path

from tardis_machine.buses.files.log import (
    CLOSED_SUFFIX,
    OPEN_SUFFIX,
    durable_end,
    pack_record,
    payloads_of,
    segments,
)
from tardis_machine.model.errors import RequestError
from tardis_machine.sinks.dead_letters import SUFFIX, DeadLetter, read_letters
from tardis_machine.sinks.frames import Redrive

LETTERS_AT_ONCE = 500


def find_redrives(path: Path) -> Iterator[Redrive]:
    """Yield the events of a dead-letter file, a segment or a stream's directory.

    Raises:
        RequestError: the path is none of these.
    """
    if path.is_dir():
        yield from _stream_redrives(path)
    elif not path.is_file():
        raise RequestError(f"{path} does not exist.")
    elif path.suffix == SUFFIX:
        yield from _letter_redrives(path)
    elif path.suffix in (CLOSED_SUFFIX, OPEN_SUFFIX):
        end = durable_end(path.parent)
        is_last = end.segment == int(path.stem)
        yield from _segment_redrives(path, end.byte if is_last else None)
    else:
        raise RequestError(
            f"{path} is not a dead-letter file ({SUFFIX}), a segment ({CLOSED_SUFFIX}) or a "
            "directory of segments."
        )


def _stream_redrives(directory: Path) -> Iterator[Redrive]:
    end = durable_end(directory)
    found = [segment for segment in segments(directory) if segment.number <= end.segment]
    if not found:
        raise RequestError(f"{directory} contains no segments.")
    for segment in found:
        is_last = segment.number == end.segment
        yield from _segment_redrives(segment.path, end.byte if is_last else None)


def _segment_redrives(path: Path, end_byte: int | None) -> Iterator[Redrive]:
    with path.open("rb") as file:
        for _, _, payload in payloads_of(file, 0, end_byte):
            yield Redrive(payload)


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
