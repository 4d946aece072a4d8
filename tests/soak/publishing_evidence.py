"""What a consumer found on a bus, held against what was promised to be there."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tardis_machine.bronze.decode import Decoder
from tardis_machine.bronze.envelope import identity, parse_event
from tardis_machine.model.ndjson import NormalizedRecord, decode_lines, encode_lines
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


def chunk_and_line(delivery_id: str) -> tuple[str, int]:
    """Split a delivery id into a chunk of a log and a line of it."""
    chunk, _, line = delivery_id.rpartition("-")
    return chunk, int(line)


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


def examine(received: Sequence[Received], answered: bytes) -> Evidence:
    """Hold what a bus has against what clients got.

    The first copies of all events are the records of `answered`, in order per key. Every further
    copy has the identity of one of them, and says the same. A chunk is there without a hole.
    """
    evidence = Evidence()
    firsts = first_copies(received, evidence)
    expected = by_key(decode_lines(answered))
    evidence.events = sum(map(len, expected.values()))
    found = by_key(firsts.values())
    for key in {**expected, **found}:
        compare_key(key, found.get(key, []), expected.get(key, []), evidence)
    check_chunks(received, evidence)
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


def check_chunks(received: Sequence[Received], evidence: Evidence) -> None:
    """Check that no line is missing before the last one of a chunk that arrived."""
    lines: dict[str, set[int]] = defaultdict(set)
    for each in received:
        chunk, line = chunk_and_line(delivery_id(each))
        lines[chunk].add(line)
    for chunk, found in lines.items():
        if missing := sorted(set(range(max(found) + 1)) - found):
            evidence.lost += len(missing)
            evidence.complain(f"{chunk}: {len(missing)} accepted events lost", missing)
