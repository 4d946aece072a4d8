"""`gold.liquidations_1m`: forced orders per minute."""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.batch import Batch, Replacement
from tardis_machine.lake.gold.instruments import with_worth
from tardis_machine.lake.gold.windows import SERIES, of_preferred_capture
from tardis_machine.lake.store.times import minute_of
from tardis_machine.lake.tables.gold import LIQUIDATIONS_1M
from tardis_machine.lake.tables.silver import LIQUIDATIONS


def recompute(batch: Batch) -> Iterator[Replacement]:
    """Yield the sums of the dirty minutes."""
    cases = LIQUIDATIONS.cases
    orders = batch.silver_rows(LIQUIDATIONS, *cases).transform(with_worth, batch.instruments)
    sums = orders.transform(minute_liquidations)
    typed = sums.withColumn("data_type", F.lit(cases[0]))
    preferred = of_preferred_capture(typed, batch.coverage, "minute")
    rows = preferred.transform(finished_liquidations)
    spans = batch.dirty.times(*cases)
    old = None
    if batch.restates:
        keys = F.broadcast(batch.minutes(*cases))
        existing = batch.gold_rows(LIQUIDATIONS_1M, spans, "minute")
        old = existing.join(keys, [*SERIES, "minute"], "left_semi")
    yield Replacement(rows, spans, "minute", old)


def minute_liquidations(liquidations: DataFrame) -> DataFrame:
    """Return sums per minute and capture."""
    keys = (*SERIES, "capture", minute_of("event_ts").alias("minute"))
    return liquidations.groupBy(*keys).agg(
        F.count_if(F.col("side") == "buy").alias("buys"),
        F.count_if(F.col("side") == "sell").alias("sells"),
        _sum("buy", F.col("amount")).alias("buy_volume"),
        _sum("sell", F.col("amount")).alias("sell_volume"),
        _sum("buy", F.col("worth")).alias("buy_notional"),
        _sum("sell", F.col("worth")).alias("sell_notional"),
    )


def _sum(side: str, value: Column) -> Column:
    return F.sum(F.when(F.col("side") == side, value).otherwise(F.lit(0.0)))


def finished_liquidations(minutes: DataFrame) -> DataFrame:
    """Return rows of `gold.liquidations_1m`."""
    return minutes.withColumn("date", F.to_date("minute")).select(*LIQUIDATIONS_1M.column_names)
