"""Measure mapping, exchange by exchange: CPU µs per message, in orjson round trips of the messages.

Run with `python -m benchmarks.venues [exchange ...]`. The messages are those of the golden files,
every channel and generation, repeated. All data types are mapped at once, and the records are
written as NDJSON, as a replay does.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

import orjson

from tardis_machine.exchanges.lines import MESSAGE_START
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.tags import AnnouncedTag
from tardis_machine.exchanges.versions import format_at
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import Record
from tests.golden.cases import NOW_US, connections, golden_files, new_normalizer, recorded_us

MESSAGES = 20_000
"""About as many are mapped per run of an exchange."""
CHUNK_LINES = 250
ROUNDS = 9
LIMIT = 5.0
REASONS: dict[str, str] = {}
"""Exchange -> why its messages cost more than the limit."""


@dataclass(frozen=True)
class Cost:
    exchange: str
    message_bytes: int
    round_trip_us: float
    map_us: float
    write_us: float

    @property
    def round_trips(self) -> float:
        return (self.map_us + self.write_us) / self.round_trip_us

    @property
    def row(self) -> str:
        note = ""
        if self.round_trips > LIMIT:
            note = REASONS.get(self.exchange, f"above {LIMIT:g}, no reason known")
        return (
            f"{self.exchange:26} {self.message_bytes:7} {self.round_trip_us:10.2f} "
            f"{self.map_us:7.2f} {self.write_us:8.2f} {self.round_trips:11.2f}  {note}"
        ).rstrip()


def best_us(run: Callable[[], object], count: int) -> float:
    """Return the CPU µs per message of the fastest of some runs."""
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best / count * 1e6


def often(exchange: Exchange, lines: list[bytes]) -> list[bytes]:
    """Leave out what comes once per connection: what the numbers of messages stand for."""
    tag = format_at(exchange, recorded_us(lines[0]), NOW_US).tag
    if not isinstance(tag, AnnouncedTag):
        return lines
    return [line for line in lines if tag.announced(line[MESSAGE_START:]) is None]


def chunks(lines: list[bytes], again: list[bytes], repeats: int) -> list[list[bytes]]:
    """Repeat the lines of a connection in chunks of the usual size."""
    repeated = lines + again * (repeats - 1)
    return [repeated[start : start + CHUNK_LINES] for start in range(0, len(repeated), CHUNK_LINES)]


def mapped(exchange: Exchange, repeated: Iterable[list[list[bytes]]]) -> list[list[Record]]:
    """Map every chunk; each connection has mappers of its own."""
    results = []
    for of_connection in repeated:
        normalizer = new_normalizer(exchange, of_connection[0][0])
        for lines in of_connection:
            records: list[Record] = []
            normalizer.map_lines(lines, records.append)
            results.append(records)
    return results


def measure(exchange: Exchange) -> Cost:
    """Measure an exchange."""
    known = [*chain(*map(connections, golden_files(exchange.id)))]
    repeats = max(1, MESSAGES // sum(map(len, known)))
    repeated = [chunks(lines, often(exchange, lines), repeats) for lines in known]
    messages = [line[MESSAGE_START:] for chunk in chain(*repeated) for line in chunk]
    records = mapped(exchange, repeated)

    def round_trips() -> None:
        for message in messages:
            orjson.dumps(orjson.loads(message))

    def write() -> None:
        for chunk in records:
            encode_lines(chunk)

    return Cost(
        exchange.id,
        sum(map(len, messages)) // len(messages),
        best_us(round_trips, len(messages)),
        best_us(lambda: mapped(exchange, repeated), len(messages)),
        best_us(write, len(messages)),
    )


def main() -> None:
    chosen = sys.argv[1:] or [name for name, known in REGISTRY.items() if known.has_mappers]
    print("CPU µs per message of the golden files; the limit is 5 round trips")
    print(
        f"{'exchange':26} {'bytes':>7} {'round trip':>10} {'mapping':>7} {'writing':>8} "
        f"{'round trips':>11}"
    )
    for name in chosen:
        print(measure(REGISTRY[name]).row, flush=True)


if __name__ == "__main__":
    main()
