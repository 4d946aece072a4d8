"""What a consumer found on a bus, held against what was promised to be there."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tardis_machine.bronze.decode import Decoder
from tardis_machine.bronze.envelope import identity, parse_event
from tardis_machine.buses.files.log import read_blocks, segments
from tardis_machine.model.ndjson import NormalizedRecord, decode_lines, encode_lines
from tardis_machine.sinks.spool import read_cursor
from tests.servers.readers import Received

EXAMPLES = 3

Key: TypeAlias = tuple[str, ...]


def key_of(record: NormalizedRecord) -> Key:
    """Return what events stay in order by: the default key, and the name of computed records."""
    exchange, symbol = record.exchange, getattr(record, "symbol", "")
    return exchange, symbol, record.type, getattr(record, "name", "")


def delivery_id(received: Received) -> str:
    """Return the id of one acceptance, wherever the bus has it."""
    headers = received.headers
    found = headers.get("deliveryId") or headers.get("message_id")
    return found or parse_event(received.value).meta["delivery_id"]


def boot_and_number(delivery_id: str) -> tuple[str, int]:
    """Split a delivery id into the start of the publisher process and its count."""
    boot, _, number = delivery_id.rpartition("-")
    return boot, int(number)


def spooled_ids(spool: Path) -> Iterator[str]:
    """Yield the delivery ids of all events in the spools that nobody has settled."""
    for directory in spool.glob("*/spool/*/"):
        starts = read_cursor(directory)
        for segment in segments(directory):
            for block in read_blocks(segment.path, starts.get(segment.number, 0)):
                for record in block.records:
                    yield record.headers["deliveryId"]


class Promises:
    """How many events each publisher process has accepted, as far as anybody saw."""

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()
        self.spooled = 0

    def note_spool(self, spool: Path) -> None:
        """Take note of what a killed process left on disk."""
        for text in spooled_ids(spool):
            boot, number = boot_and_number(text)
            self.numbers[boot] = max(self.numbers[boot], number)
            self.spooled += 1


@dataclass
class Evidence:
    """What is wrong with a bus, and how many copies it holds."""

    events: int = 0
    duplicates: int = 0
    lost: int = 0
    problems: list[str] = field(default_factory=list)

    def complain(self, text: str, examples: Sequence[object] = ()) -> None:
        """Add a problem with a few examples."""
        shown = "".join(f"\n    {each}" for each in examples[:EXAMPLES])
        self.problems.append(f"{text}{shown}")


def examine(received: Sequence[Received], answered: bytes, promises: Promises) -> Evidence:
    """Hold what a bus has against what clients got and what the publisher took.

    The first copies of all events are the records of `answered`, in order per key. Every further
    copy has the identity of one of them, and says the same. What one publisher process accepted,
    by its count, is there without a hole.
    """
    evidence = Evidence()
    firsts = first_copies(received, evidence)
    expected = by_key(decode_lines(answered))
    evidence.events = sum(map(len, expected.values()))
    found = by_key(firsts.values())
    for key in {**expected, **found}:
        compare_key(key, found.get(key, []), expected.get(key, []), evidence)
    check_numbers(received, promises.numbers, evidence)
    return evidence


def first_copies(
    received: Sequence[Received], evidence: Evidence
) -> Mapping[str, NormalizedRecord]:
    """Return the first copy of every event by its identity, in the order of arrival."""
    firsts: dict[str, NormalizedRecord] = {}
    records = Decoder().decode(each.value for each in received)
    for each, record in zip(received, records, strict=True):
        name = identity(parse_event(each.value))
        if each.headers.get("eventId", name) != name:
            evidence.complain("eventId is not the identity", [each.headers["eventId"], name])
        first = firsts.setdefault(name, record)
        if first is not record:
            evidence.duplicates += 1
            if first != record:
                evidence.complain(f"copies of {name} differ", [first, record])
    return firsts


def by_key(records: Iterable[NormalizedRecord]) -> dict[Key, list[NormalizedRecord]]:
    """Group records, keeping their order."""
    groups: dict[Key, list[NormalizedRecord]] = defaultdict(list)
    for record in records:
        groups[key_of(record)].append(record)
    return groups


def compare_key(
    key: Key,
    found: Sequence[NormalizedRecord],
    expected: Sequence[NormalizedRecord],
    evidence: Evidence,
) -> None:
    """Say what differs in the events of one key: lost, never asked for, or out of order."""
    if found == expected:
        return
    have, want = (Counter(encode_lines([each]) for each in group) for group in (found, expected))
    missing, strange = want - have, have - want
    if missing:
        evidence.lost += missing.total()
        evidence.complain(f"{key}: {missing.total()} events lost", list(missing))
    if strange:
        evidence.complain(f"{key}: {strange.total()} events nobody asked for", list(strange))
    if not missing and not strange:
        pairs = zip(found, expected, strict=True)
        evidence.complain(
            f"{key}: out of order", next(pair for pair in pairs if pair[0] != pair[1])
        )


def check_numbers(
    received: Sequence[Received], promised: Mapping[str, int], evidence: Evidence
) -> None:
    """Check that no number is missing up to the last one that a publisher process gave."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for each in received:
        boot, number = boot_and_number(delivery_id(each))
        numbers[boot].add(number)
    for boot in {**numbers, **promised}:
        last = max(max(numbers[boot], default=0), promised.get(boot, 0))
        missing = sorted(set(range(1, last + 1)) - numbers[boot])
        if missing:
            evidence.lost += len(missing)
            evidence.complain(f"{boot}: {len(missing)} of {last} accepted events lost", missing)
