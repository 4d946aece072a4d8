"""Measure computed records: CPU µs per book change and per merged record.

Run with `python benchmarks/compute.py`. To compare machines, costs are also given in orjson round
trips of a raw message with as many levels. Snapshots include their encoding for the wire.
"""

import gc
import random
import time
from collections.abc import Callable, Iterator

import orjson

from tardis_machine.computed.combine import Merger, local_keys
from tardis_machine.computed.pipeline import Computables
from tardis_machine.model.data_types import computed_specs
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import BookChange, BookLevel, EncodedBookSnapshot, Record, Trade
from tardis_machine.model.time import parse_us, us_text

START_US = parse_us("2024-03-01T00:00:00.000000Z")
CHUNK_RECORDS = 250
ROUNDS = 15


class Market:
    """A random book whose changes look like those of a venue."""

    def __init__(self, *, tick: float, levels: int, mean_depth: float, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._tick = tick
        self._mean_depth = mean_depth
        middle = round(60_000 / tick)
        self._bids = {middle - 1 - n: self._amount() for n in range(levels)}
        self._asks = {middle + 1 + n: self._amount() for n in range(levels)}
        self._middle = middle

    def snapshot(self) -> BookChange:
        return self._change(0, list(self._bids.items()), list(self._asks.items()), is_snapshot=True)

    def changes(self, count: int, sizes: tuple[int, ...]) -> Iterator[BookChange]:
        for number in range(1, count + 1):
            if self._random.random() < 0.02:
                self._middle += self._random.choice((-1, 1))
            bids: dict[int, float] = {}
            asks: dict[int, float] = {}
            for _ in range(self._random.choice(sizes)):
                self._touch(bids, asks)
            yield self._change(number, list(bids.items()), list(asks.items()))

    def _touch(self, bids: dict[int, float], asks: dict[int, float]) -> None:
        is_bid = self._random.random() < 0.5
        away = 1 + int(self._random.expovariate(1 / self._mean_depth))
        price = self._middle - away if is_bid else self._middle + away
        amount = 0.0 if self._random.random() < 0.15 else self._amount()
        (bids if is_bid else asks)[price] = amount

    def _amount(self) -> float:
        return self._random.randrange(1, 400_000) / 1000

    def _change(
        self,
        number: int,
        bids: list[tuple[int, float]],
        asks: list[tuple[int, float]],
        *,
        is_snapshot: bool = False,
    ) -> BookChange:
        local = us_text(START_US + number * 5000)
        return BookChange(
            symbol="XBTUSD",
            exchange="bitmex",
            is_snapshot=is_snapshot,
            bids=[BookLevel(round(price * self._tick, 1), amount) for price, amount in bids],
            asks=[BookLevel(round(price * self._tick, 1), amount) for price, amount in asks],
            timestamp=local[:23] + "Z",
            local_timestamp=local,
        )


def cpu_us(work: Callable[[], object], count: int) -> float:
    """Return the CPU time of `work` per unit in µs, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        work()
        best = min(best, time.process_time_ns() - started)
    return best / 1000 / count


def chunks(records: list[Record]) -> list[list[Record]]:
    return [records[n : n + CHUNK_RECORDS] for n in range(0, len(records), CHUNK_RECORDS)]


def calibrate(levels: int) -> float:
    """Return the cost of one orjson round trip of a raw message with this many levels."""
    data = [
        {"symbol": "XBTUSD", "id": 8_799_000_000 + n, "side": "Sell", "size": 12_500 + n}
        for n in range(levels)
    ]
    line = orjson.dumps({"table": "orderBookL2", "action": "update", "data": data})
    rounds = range(20_000)

    def round_trips() -> None:
        for _ in rounds:
            orjson.dumps(orjson.loads(line))

    cost = cpu_us(round_trips, len(rounds))
    print(f"  one orjson round trip of {len(line)} B: {cost:.2f} µs")
    return cost


def measure_books(name: str, market: Market, sizes: tuple[int, ...], count: int) -> None:
    records: list[Record] = [market.snapshot(), *market.changes(count, sizes)]
    parts = chunks(records)
    print(f"{name}: {count} book changes, {sum(sizes) / len(sizes):.1f} levels each")
    gc.freeze()
    unit = calibrate(round(sum(sizes) / len(sizes)))
    for data_types in (
        ["book_snapshot_50_0ms"],
        ["quote"],
        ["book_snapshot_10_100ms"],
        ["book_snapshot_20_grouped10_0ms"],
    ):

        def run(names: list[str] = data_types) -> int:
            computables = Computables(computed_specs(names))
            size = 0
            for part in parts:
                out = computables.apply(part)
                size += len(encode_lines([r for r in out if type(r) is EncodedBookSnapshot]))
            return size

        cost = cpu_us(run, count)
        print(f"  {', '.join(data_types)}: {cost:.2f} µs per change, {cost / unit:.1f} round trips")


def measure_bars(count: int) -> None:
    source = random.Random(2)
    records: list[Record] = [trade(number, source) for number in range(count)]
    parts = chunks(records)

    def run() -> None:
        computables = Computables(computed_specs(["trade_bar_1s", "trade_bar_100ticks"]))
        for part in parts:
            computables.apply(part)

    print(f"trade_bar_1s, trade_bar_100ticks: {cpu_us(run, count):.2f} µs per trade")


def trade(number: int, source: random.Random) -> Trade:
    local = us_text(START_US + number * 5000 + source.randrange(5000))
    return Trade(
        symbol="XBTUSD",
        exchange="bitmex",
        price=60_000 + source.randrange(100) / 2,
        amount=float(source.randrange(1, 1000)),
        side="buy",
        timestamp=local[:23] + "Z",
        local_timestamp=local,
    )


def measure_merge(streams: int, count: int, *, is_interleaved: bool) -> None:
    source = random.Random(3)
    records = [trade(number, source) for number in range(count)]
    if is_interleaved:
        inputs = [chunks(list(records[n::streams])) for n in range(streams)]
    else:
        inputs = [chunks(list(records))[n::streams] for n in range(streams)]

    def run() -> int:
        return sum(len(merged) for merged in merge(inputs))

    assert run() == count
    layout = "interleaved" if is_interleaved else "chunk after chunk"
    print(f"merge of {streams} streams, {layout}: {cpu_us(run, count):.3f} µs per record")


def merge(inputs: list[list[list[Record]]]) -> Iterator[list[Record]]:
    merger: Merger[Record, str] = Merger(len(inputs))
    feeds = [iter(parts) for parts in inputs]
    while not merger.is_done:
        while (stream := merger.needs()) is not None:
            part = next(feeds[stream], None)
            if part is None:
                merger.finish(stream)
            else:
                merger.offer(stream, part, local_keys(part))
        yield merger.take()


def main() -> None:
    small = Market(tick=0.5, levels=2000, mean_depth=12)
    measure_books("bitmex-like", small, (1, 1, 1, 1, 1, 2, 3), 4_000)
    large = Market(tick=0.1, levels=1000, mean_depth=60)
    measure_books("binance-futures-like", large, (10, 15, 20, 25, 30), 1_000)
    measure_bars(5_000)
    for streams in (2, 5):
        measure_merge(streams, 20_000, is_interleaved=True)
        measure_merge(streams, 20_000, is_interleaved=False)


if __name__ == "__main__":
    main()
