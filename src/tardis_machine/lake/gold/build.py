"""The job from Silver to Gold: recompute the windows of dirty minutes and write what changed.

Late events therefore correct Gold, and a stream ends with the same tables as one batch over
everything.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.lake.gold import bars, cross_exchange, funding, liquidations, quotes
from tardis_machine.lake.gold.batch import Batch, Replacement
from tardis_machine.lake.gold.coverage import CASE_GROUPS, of_dirty_minutes
from tardis_machine.lake.gold.dirty_minutes import collect_dirty
from tardis_machine.lake.spark.few_rows import for_few_rows
from tardis_machine.lake.spark.threads import side_by_side
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.tables import SILVER_BY_CASE, Table
from tardis_machine.lake.tables.gold import (
    BARS,
    COVERAGE,
    CROSS_EXCHANGE_1M,
    FUNDING,
    LIQUIDATIONS_1M,
    QUOTES_1S,
)
from tardis_machine.lake.tables.silver import (
    DERIVATIVE_TICKERS,
    LIQUIDATIONS,
    QUOTE_CASES,
    TOUCHED_MINUTES,
    TRADES,
)

QUERY = "serve"
"""Name of the query in checkpoints and metrics; lakes on disk have it."""
MAX_DIRTY_BYTES = 1 << 20
"""Bytes of `silver.touched_minutes` per batch: some 100,000 minutes, held by the driver."""


@dataclass(frozen=True)
class GoldTable:
    """One Gold table: when it is recomputed, and how."""

    table: Table
    cases: tuple[str, ...]
    """Payload cases whose events change it."""
    recompute: Callable[[Batch], Iterable[Replacement]]
    """Yields the rows of the dirty windows; each is written before the next is asked for."""


def _coverage(batch: Batch) -> Iterable[Replacement]:
    times = batch.dirty.times(*batch.dirty.spans)
    old = None
    if batch.restates:
        groups = {case: batch.minutes(*cases) for case, cases in CASE_GROUPS.items()}
        old = batch.gold_rows(COVERAGE, times, "minute").transform(of_dirty_minutes, groups)
    return [Replacement(batch.coverage, times, "minute", old)]


GOLD = (
    (
        GoldTable(COVERAGE, tuple(SILVER_BY_CASE), _coverage),
        GoldTable(QUOTES_1S, QUOTE_CASES, quotes.recompute),
        GoldTable(FUNDING, DERIVATIVE_TICKERS.cases, funding.recompute),
    ),
    (
        GoldTable(BARS, TRADES.cases, bars.recompute),
        GoldTable(CROSS_EXCHANGE_1M, TRADES.cases, cross_exchange.recompute),
    ),
    (GoldTable(LIQUIDATIONS_1M, LIQUIDATIONS.cases, liquidations.recompute),),
)
"""Every Gold table, in chains that run side by side: a table may read those before it."""


def build_writer(
    store: Store, max_batch_bytes: int = MAX_DIRTY_BYTES, *, restates: bool = False
) -> DataStreamWriter:
    """Return the streaming query; the caller sets its trigger and starts it.

    Args:
        store: Where the tables are.
        max_batch_bytes: Bytes of `silver.touched_minutes` per batch.
        restates: Events may have gone from the touched minutes, not only come.
    """
    minutes = store.stream(TOUCHED_MINUTES, QUERY, min(max_batch_bytes, MAX_DIRTY_BYTES))
    return (
        minutes.writeStream.queryName(QUERY)
        .option("checkpointLocation", store.checkpoint(QUERY))
        .foreachBatch(lambda batch, _: build_batch(batch, store, restates=restates))
    )


def build_batch(minutes: DataFrame, store: Store, *, restates: bool = False) -> None:
    """Update the Gold tables for some dirty minutes."""
    batch = Batch(store, collect_dirty(minutes), restates=restates)
    if not batch.dirty.spans:
        return
    with for_few_rows(store.spark, when=batch.reads_few()):
        batch.prepare()
        side_by_side(store.spark, (partial(_build_each, chain, batch) for chain in GOLD))


def _build_each(tables: Iterable[GoldTable], batch: Batch) -> None:
    for gold in tables:
        if batch.dirty.has(*gold.cases):
            for replacement in gold.recompute(batch):
                batch.write(gold.table, replacement)
