"""Measure Silver and Gold: events per CPU second of driver, JVM and Python workers together.

Run with `python -m benchmarks.lake [rates growth batch late]`. Each rate is the best of some rounds
over the same Bronze; the first ones warm the JVM. Filling Bronze does not count.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.bronze import START_US, SYMBOLS, book_change, encode, trade
from tardis_machine.bronze.content import FIRST_VERSION
from tardis_machine.lake.bronze.rows import bronze_batch
from tardis_machine.lake.gold.build import build_writer
from tardis_machine.lake.settings import LakeSettings, SparkSettings
from tardis_machine.lake.silver.refine import refine_writer
from tardis_machine.lake.spark.session import open_session
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.tables.bronze import EVENTS
from tardis_machine.lake.tables.silver import TOUCHED_MINUTES, TRADES
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.time import DAY_US

ROUNDS = 4
TRADES_PER_ROUND = 1_000_000
BOOKS_PER_ROUND = 300_000
GOLD_TRADES = 4_000_000
BASE_EVENTS = 100_000
FACTORS = (1, 4, 16)
WARM_ROUNDS = 2
FILE_ROWS = 100_000
"""Events per Bronze file, as ingest writes them from a few partitions."""
BATCH_ROWS = 100_000
MORE_BATCHES = 3
KNOWN_ROWS = (1_000_000, 16_000_000)
KNOWN_COMMIT_ROWS = 500_000
STEP_US = 700
YEAR_DAYS = 365
TRADES_PER_DAY = 200
DAY_STEP_US = DAY_US // TRADES_PER_DAY
LATE_ROUNDS = 10
LATE_WARM_ROUNDS = 3
"""Rounds that do not count: until then the JVM compiles more than it computes."""

Make = Callable[[int], NormalizedRecord]


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and all below it, ended ones too."""
    root = psutil.Process()
    return sum(sum(each.cpu_times()[:4]) for each in (root, *root.children(recursive=True)))


class BenchLake:
    """A lake whose Bronze is filled without a bus."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self.root = root

    def fill(self, make: Make, count: int, first: int = 0) -> None:
        """Append events to Bronze."""
        for start in range(first, first + count, FILE_ROWS):
            size = min(FILE_ROWS, first + count - start)
            envelopes = [each.data for each in encode([make(start + n) for n in range(size)])]
            rows = pa.Table.from_batches([bronze_batch(_records(envelopes, start))])
            Store(self._spark, self.root).append(
                self._spark.createDataFrame(rows).coalesce(1), EVENTS
            )

    def forget(self) -> None:
        """Delete everything but Bronze."""
        for name in ("silver", "gold", "_checkpoints"):
            shutil.rmtree(Path(self.root, name), ignore_errors=True)

    def refine(self) -> float:
        """Bring Bronze to Silver; return the CPU seconds."""
        return _cost(refine_writer(Store(self._spark, self.root), LakeSettings().max_batch_bytes))

    def build(self) -> float:
        """Bring Silver to Gold; return the CPU seconds."""
        return _cost(build_writer(Store(self._spark, self.root)))

    def fill_silver(self, first: int, last: int) -> None:
        """Append trades to Silver that equal those of `benchmarks.bronze.trade`."""
        store = Store(self._spark, self.root)
        for start in range(first, last, KNOWN_COMMIT_ROWS):
            numbers = self._spark.range(start, min(start + KNOWN_COMMIT_ROWS, last), 1, 2)
            store.append(numbers.select(*_trade_columns()), TRADES)

    def fill_year(self) -> None:
        """Append trades of every day of a year to Silver, and compute their Gold."""
        numbers = self._spark.range(0, YEAR_DAYS * TRADES_PER_DAY, 1, 2)
        Store(self._spark, self.root).append(numbers.select(*_trade_columns(DAY_STEP_US)), TRADES)
        self.touch_trades()
        self.build()

    def add(self, *numbers: int) -> None:
        """Append one more trade at the time of each number, and note its minute as touched."""
        store = Store(self._spark, self.root)
        rows = self._spark.createDataFrame([(number,) for number in numbers], "id long")
        trades = rows.select(*_trade_columns(DAY_STEP_US, ordinal=1)).coalesce(1)
        store.append(trades, TRADES)
        store.append(trades.select(*_touched()).distinct(), TOUCHED_MINUTES)

    def touch_trades(self) -> None:
        """Note all minutes of Silver trades as touched, and no Gold as computed."""
        for name in ("gold", "_checkpoints", TOUCHED_MINUTES.path):
            shutil.rmtree(Path(self.root, name), ignore_errors=True)
        store = Store(self._spark, self.root)
        store.append(store.read(TRADES).select(*_touched()).distinct(), TOUCHED_MINUTES)


def _touched() -> list[object]:
    """Return the columns of `silver.touched_minutes` for trades."""
    return [
        F.to_date("event_ts").alias("date"),
        F.lit(TRADES.cases[0]).alias("payload_case"),
        "exchange",
        "symbol",
        F.date_trunc("minute", "event_ts").alias("minute"),
    ]


def _records(envelopes: list[bytes], start: int) -> pa.RecordBatch:
    count = len(envelopes)
    return pa.RecordBatch.from_pydict(
        {
            "bus": pa.array(["bench"] * count),
            "stream": pa.array(["events"] * count),
            "partition": pa.array(["0"] * count),
            "position": pa.array([str(start + number) for number in range(count)]),
            "bus_ts": pa.nulls(count, pa.timestamp("us", "UTC")),
            "envelope": pa.array(envelopes, pa.binary()),
        }
    )


def _trade_columns(step_us: int = STEP_US, ordinal: int = 0) -> list[object]:
    number = F.col("id")
    event_us = F.floor((F.lit(START_US) + number * step_us) / 1000) * 1000
    local_ts = F.timestamp_micros(F.lit(START_US + 4321) + number * step_us)
    symbols = F.array(*map(F.lit, SYMBOLS))
    columns = {
        "date": F.to_date(local_ts),
        "exchange": F.lit("binance-futures"),
        "symbol": F.get(symbols, F.pmod(number, F.lit(len(SYMBOLS)))),
        "local_ts": local_ts,
        "ordinal": F.lit(ordinal),
        "capture": F.lit("history"),
        "event_ts": F.timestamp_micros(event_us),
        "id": (number + 4_000_000_000).cast("string"),
        "price": F.lit(61_234.5) + F.pmod(number, F.lit(100)) / 10,
        "amount": (F.pmod(number, F.lit(50)) + 1) / 1000,
        "side": F.when(F.pmod(number, F.lit(3)) == 0, "sell").otherwise("buy"),
        "producer": F.lit("host-1"),
        "origin": F.lit("replay"),
        "ingest_ts": F.timestamp_micros(F.lit(START_US)),
        "time_digits": F.lit(0),
        "mapper_version": F.lit(FIRST_VERSION),
    }
    return [columns[name].alias(name) for name in TRADES.column_names]


def _cost(writer: DataStreamWriter) -> float:
    before = cpu_seconds()
    writer.trigger(availableNow=True).start().awaitTermination()
    return cpu_seconds() - before


@contextmanager
def new_lake(spark: SparkSession) -> Iterator[BenchLake]:
    with tempfile.TemporaryDirectory() as root:
        yield BenchLake(spark, str(Path(root, "lake")))


def costs(spark: SparkSession, make: Make, count: int, rounds: int) -> list[tuple[float, float]]:
    """Return what so many events cost in each round: Silver, and Gold from it."""
    with new_lake(spark) as lake:
        lake.fill(make, count)
        return [_round(lake) for _ in range(rounds)]


def _round(lake: BenchLake) -> tuple[float, float]:
    lake.forget()
    return lake.refine(), lake.build()


def gold_costs(spark: SparkSession) -> list[float]:
    """Return what the Gold of trades costs in each round: all bars, coverage and dispersion."""
    with new_lake(spark) as lake:
        lake.fill_silver(0, GOLD_TRADES)
        return [_gold_round(lake) for _ in range(ROUNDS)]


def _gold_round(lake: BenchLake) -> float:
    lake.touch_trades()
    return lake.build()


def show_rates(spark: SparkSession) -> None:
    print(f"{'events per core-second':32} {'target':>10} {'best':>10}   of rounds")
    trades = costs(spark, trade, TRADES_PER_ROUND, ROUNDS)
    _show("Silver, trades", TRADES_PER_ROUND, [silver for silver, _ in trades], 80_000)
    _show("Gold of trades: bars, coverage", GOLD_TRADES, gold_costs(spark), 200_000)
    books = costs(spark, lambda n: book_change(n, 20), BOOKS_PER_ROUND, ROUNDS)
    _show("Silver, 20-level books", BOOKS_PER_ROUND, [silver for silver, _ in books], 30_000)


def _show(name: str, events: int, spent: list[float], target: int) -> None:
    rounds = " ".join(f"{events / cost:8,.0f}" for cost in spent)
    print(f"{name:32} {target:10,} {events / min(spent):10,.0f}   {rounds}", flush=True)


def show_growth(spark: SparkSession) -> None:
    print(f"\n{'Silver and Gold of trades':32} {'CPU s':>10} {'times':>8} {'at most':>8}")
    costs(spark, trade, BASE_EVENTS, WARM_ROUNDS)
    first = None
    for factor in FACTORS:
        ((silver, gold),) = costs(spark, trade, BASE_EVENTS * factor, 1)
        first = first or silver + gold
        limit = "18.0" if factor == FACTORS[-1] else ""
        name = f"{BASE_EVENTS * factor:,} events ({factor}x)"
        cost = silver + gold
        print(f"{name:32} {cost:10.1f} {cost / first:8.1f} {limit:>8}", flush=True)


def show_one_more_batch(spark: SparkSession) -> None:
    print(f"\n{f'one more batch of {BATCH_ROWS:,} trades':32} {'CPU s':>10} {'times':>8}")
    first = None
    with new_lake(spark) as lake:
        known = 0
        for rows in KNOWN_ROWS:
            lake.fill_silver(known, rows)
            known = rows + MORE_BATCHES * BATCH_ROWS // 2
            cost = min(_more_batches(lake, rows))
            first = first or cost
            print(f"{f'Silver has {rows:,} rows':32} {cost:10.1f} {cost / first:8.2f}", flush=True)


def _more_batches(lake: BenchLake, rows: int) -> Iterator[float]:
    """Yield what batches cost of which half is known."""
    half = BATCH_ROWS // 2
    for start in range(rows, rows + MORE_BATCHES * half, half):
        lake.fill(trade, BATCH_ROWS, start - half)
        yield lake.refine()


def show_late_event(spark: SparkSession) -> None:
    print(f"\n{'Gold of a batch, a year in Silver':32} {'CPU s':>10} {'times':>8} {'at most':>8}")
    last = YEAR_DAYS * TRADES_PER_DAY
    usual: list[float] = []
    late: list[float] = []
    with new_lake(spark) as lake:
        lake.fill_year()
        for number in range(LATE_ROUNDS):
            for spent, others in ((usual, ()), (late, (number,))):
                lake.add(*others, last)
                last += 1
                spent.append(lake.build())
    none, one = (min(spent[LATE_WARM_ROUNDS:]) for spent in (usual, late))
    print(f"{'no late event':32} {none:10.1f} {1:8.2f}")
    print(f"{'one of a year ago':32} {one:10.1f} {one / none:8.2f} {'1.30':>8}", flush=True)


PARTS: dict[str, Callable[[SparkSession], None]] = {
    "rates": show_rates,
    "growth": show_growth,
    "batch": show_one_more_batch,
    "late": show_late_event,
}


def main() -> None:
    """Print the parts that the command line names, or all."""
    chosen = sys.argv[1:] or list(PARTS)
    with open_session(SparkSettings(), profile="throughput") as spark:
        for name in chosen:
            PARTS[name](spark)


if __name__ == "__main__":
    main()
