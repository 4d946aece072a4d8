"""Digests of what the messages of the golden files give, with the version of the mappers.

A message that gives other records than before needs a higher `mapper_version`
(`exchanges.catalog`): that is how the lake knows which copy of a record is newer.

    python -m tests.golden.digests

adds what is missing, and refuses records that changed without a new version.
"""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tardis_machine.exchanges.registry import REGISTRY
from tests.golden.cases import FOLDER, golden_files, read_steps

FILE = FOLDER / "digests.txt"
DIGITS = 12


def known_digests(path: Path = FILE) -> dict[tuple[str, int, str], str]:
    """Return by exchange, version and message what its records were."""
    rows = (line.split() for line in path.read_text().splitlines())
    return {(row[0], int(row[1]), row[2]): row[3] for row in rows}


def current_digests() -> dict[tuple[str, int, str], str]:
    """Return the same of the golden files as they are."""
    return {
        (exchange.id, exchange.mapper_version, message): records
        for exchange in REGISTRY.values()
        for path in golden_files(exchange.id)
        for message, records in _digests(path)
    }


def changed_exchanges(
    known: dict[tuple[str, int, str], str], current: dict[tuple[str, int, str], str]
) -> set[str]:
    """Return the exchanges whose records changed under the same version."""
    return {key[0] for key, records in current.items() if known.get(key, records) != records}


def _digests(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the digest of each message, with those before it, and that of its records."""
    connection = hashlib.sha256(path.name.encode())
    for step in read_steps(path):
        if not step.line:
            connection = hashlib.sha256(path.name.encode())
        connection.update(step.line)
        # By value: another notation of the same number is no change.
        values = repr([msgspec.json.decode(record) for record in step.expected])
        records = hashlib.sha256(values.encode())
        yield connection.hexdigest()[:DIGITS], records.hexdigest()[:DIGITS]


def _main() -> None:
    known, current = known_digests() if FILE.exists() else {}, current_digests()
    changed = changed_exchanges(known, current)
    if changed:
        sys.exit(f"Raise mapper_version of {', '.join(sorted(changed))}: records changed.")
    rows = (" ".join(map(str, (*key, records))) for key, records in sorted(current.items()))
    FILE.write_text("".join(f"{row}\n" for row in rows))


if __name__ == "__main__":
    _main()
