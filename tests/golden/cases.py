"""Golden files: raw lines of a venue and the records that must come out of them.

A file holds connections of one channel. A line that starts with `>` is fed, as recorded; the lines
with `<` below it are what all mappers of the exchange emit for it, in order. A lone `>` is a
disconnect; the line after it starts a new connection, whose time chooses the mappers and the wire
format. `#` starts a comment.

    python -m tests.golden.cases bitmex/trade.txt

replaces the `<` lines of a file with what the mappers emit now: read the difference before you
commit it.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tardis_machine.exchanges.lines import LOCAL_DIGITS
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.versions import make_normalizer
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import Record, decoded
from tardis_machine.model.time import parse_us

FOLDER = Path(__file__).parent
NOW_US = parse_us("2100-01-01T00:00:00.000Z")


@dataclass
class Step:
    """One line and the records it must give, as JSON lines."""

    line: bytes
    expected: list[bytes] = field(default_factory=list)


def golden_files(exchange: str) -> list[Path]:
    """Return the files of an exchange."""
    return sorted((FOLDER / exchange).glob("*.txt"))


def read_steps(path: Path) -> list[Step]:
    """Read a file."""
    steps: list[Step] = []
    for line in path.read_bytes().splitlines():
        if line.startswith(b">"):
            steps.append(Step(line[2:]))
        elif line.startswith(b"<"):
            steps[-1].expected.append(line[2:])
    return steps


def connections(path: Path) -> list[list[bytes]]:
    """Return the lines of a file by connection."""
    found: list[list[bytes]] = [[]]
    for step in read_steps(path):
        if step.line:
            found[-1].append(step.line)
        else:
            found.append([])
    return [lines for lines in found if lines]


def recorded_us(line: bytes) -> int:
    """Return when a line was recorded."""
    return parse_us(line[:LOCAL_DIGITS].decode() + "Z")


def new_normalizer(exchange: Exchange, line: bytes) -> Normalizer:
    """Make mappers of all data types for a connection that starts with this line."""
    start_us = recorded_us(line)
    return make_normalizer(exchange, exchange.data_types, start_us, NOW_US, is_live=False)


def map_steps(exchange: Exchange, lines: list[bytes]) -> Iterator[list[bytes]]:
    """Yield what each line gives; an empty one starts a new connection."""
    normalizer = None
    for line in lines:
        records: list[Record] = []
        if not line:
            normalizer = None
        else:
            normalizer = normalizer or new_normalizer(exchange, line)
            normalizer.map_lines([line], records.append)
        # Levels that stay text have the digits of the venue: what is compared are numbers.
        yield encode_lines([decoded(record) for record in records]).splitlines()


def _rewrite(path: Path) -> None:
    exchange = REGISTRY[path.parent.name]
    kept = [line for line in path.read_bytes().splitlines() if not line.startswith(b"<")]
    results = map_steps(exchange, [line[2:] for line in kept if line.startswith(b">")])
    written = []
    for line in kept:
        written.append(line)
        if line.startswith(b">"):
            written += [b"< " + record for record in next(results)]
    path.write_bytes(b"\n".join(written) + b"\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        _rewrite(FOLDER / name)
