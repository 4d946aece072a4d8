"""Measure what comparing checksums adds to mapping live books: CPU µs per update.

Run with `python -m benchmarks.checksums`. A book of 400 levels gets updates of six levels, a
hundred per second as they arrive, each with its true checksum. The same updates are mapped without
a checksum, and with one that never fitted.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec.json import Decoder

from tardis_machine.exchanges.levels import Level
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.protocols.checksums import (
    ALTERNATING,
    ASKS_FIRST,
    Formula,
    RawPair,
    TextBook,
)
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import live_mappers, venue_of
from tardis_machine.model.records import Record
from tardis_machine.model.time import ms_text

UPDATES = 5_000
PER_SECOND = 100
SIDE_LEVELS = 200
CHANGED_LEVELS = 3
ROUNDS = 5
START_MS = 1_788_220_800_000

Levels: TypeAlias = Sequence[tuple[str, str]]
Write: TypeAlias = Callable[[int, Levels, Levels, int], bytes]


class RawSides(msgspec.Struct):
    bids: list[RawPair]
    asks: list[RawPair]


class Sides(msgspec.Struct):
    bids: list[Level]
    asks: list[Level]


def write_kraken(number: int, bids: Levels, asks: Levels, checksum: int) -> bytes:
    sides = [
        ",".join(f'{{"price":{price},"qty":{amount}}}' for price, amount in levels)
        for levels in (bids, asks)
    ]
    kind = "update" if number else "snapshot"
    item = f'"symbol":"BTC/USD","bids":[{sides[0]}],"asks":[{sides[1]}],"checksum":{checksum}'
    time_text = '"timestamp":"2026-09-01T00:00:00.123456Z"'
    return f'{{"channel":"book","type":"{kind}","data":[{{{item},{time_text}}}]}}'.encode()


def write_bitget(number: int, bids: Levels, asks: Levels, checksum: int) -> bytes:
    item = {"a": asks, "b": bids, "checksum": checksum, "seq": number, "pseq": number - 1}
    arg = {"instType": "spot", "topic": "books", "symbol": "BTCUSDT"}
    action = "update" if number else "snapshot"
    message = {"action": action, "arg": arg, "data": [item | {"ts": "1788220800123"}]}
    return msgspec.json.encode(message)


VENUES: dict[str, tuple[Write, Formula]] = {
    "kraken": (write_kraken, ASKS_FIRST),
    "bitget": (write_bitget, ALTERNATING),
}


def changes() -> Iterator[tuple[Levels, Levels]]:
    """Return a whole book, then what changes of it."""
    chance = random.Random(1)

    def level(side: int, most: int) -> tuple[str, str]:
        price = 60_000 + side * chance.randrange(1, most) / 10
        return f"{price:.1f}", f"{chance.randrange(0, 5) * 1.25:.8f}"

    yield tuple(
        [(f"{60_000 + side * number / 10:.1f}", "1.00000000") for number in range(1, SIDE_LEVELS)]
        for side in (-1, 1)
    )  # type: ignore[misc]
    for _ in range(UPDATES):
        yield tuple([level(side, SIDE_LEVELS) for _ in range(CHANGED_LEVELS)] for side in (-1, 1))  # type: ignore[misc]


def messages(write: Write, formula: Formula, *, adds_up: bool) -> list[bytes]:
    """Return the messages of a connection, with true checksums or with others."""
    book, written = TextBook(), []
    decode, decode_raw = Decoder(Sides, strict=False).decode, Decoder(RawSides).decode
    for number, (bids, asks) in enumerate(changes()):
        message = msgspec.Raw(msgspec.json.encode({"bids": bids, "asks": asks}))
        sides = decode(message)
        book.apply(sides.bids, sides.asks, message)
        checksum = book.sum(formula, decode_raw) if adds_up else 1
        written.append(write(number, bids, asks, checksum))
    return written


def map_us(exchange: str, received: Iterable[bytes]) -> float:
    """Return the CPU µs per message of the fastest of some runs."""
    known, best = REGISTRY[exchange], float("inf")
    timed = [(msg, ms_text(START_MS + 1000 // PER_SECOND * n)) for n, msg in enumerate(received)]
    for _ in range(ROUNDS):
        [mapper] = live_mappers(known, ["book_change"], {}).values()
        normalizer = Normalizer(exchange, venue_of(known).formats[-1], [mapper])
        records: list[Record] = []
        started = time.process_time()
        for message, local in timed:
            normalizer.map_message(message, local, records.append)
        best = min(best, time.process_time() - started)
    return best / len(timed) * 1e6


def main() -> None:
    print(f"{'exchange':10} {'ignored':>8} {'compared':>9} {'adds':>6}   CPU µs per update")
    for exchange, (write, formula) in VENUES.items():
        ignored = map_us(exchange, messages(write, formula, adds_up=False))
        compared = map_us(exchange, messages(write, formula, adds_up=True))
        print(f"{exchange:10} {ignored:8.2f} {compared:9.2f} {compared / ignored - 1:6.0%}")


if __name__ == "__main__":
    main()
