"""`gold.cross_exchange_1m`: how far the last prices of one market differ between exchanges."""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.batch import Batch, Replacement
from tardis_machine.lake.gold.instruments import with_market
from tardis_machine.lake.gold.windows import SERIES
from tardis_machine.lake.tables.gold import BARS, CROSS_EXCHANGE_1M
from tardis_machine.lake.tables.silver import TRADES

BPS = 10_000


def recompute(batch: Batch) -> Iterator[Replacement]:
    """Yield the rows of the markets and minutes with new trades, from `gold.bars`."""
    if not _has_several_series(batch):
        return
    spans = batch.dirty.times(*TRADES.cases)
    dirty = batch.minutes(*TRADES.cases).transform(with_market, batch.instruments)
    keys = F.broadcast(dirty.select("market", F.col("minute").alias("open_ts")).distinct())
    bars = batch.gold_rows(BARS, spans, "open_ts", interval=("1m",))
    placed = bars.transform(with_market, batch.instruments)
    rows = placed.join(keys, ["market", "open_ts"], "left_semi").transform(dispersion)
    old = batch.gold_rows(CROSS_EXCHANGE_1M, spans, "minute").join(
        keys.withColumnRenamed("open_ts", "minute"), ["market", "minute"], "left_semi"
    )
    yield Replacement(rows, spans, "minute", old)


def _has_several_series(batch: Batch) -> bool:
    """Say whether there are prices to compare, or were before."""
    if batch.exists(CROSS_EXCHANGE_1M):
        return True
    series = batch.gold_rows(BARS, batch.dirty.times(*TRADES.cases), "open_ts")
    return series.select(*SERIES).distinct().limit(2).count() > 1


def dispersion(bars: DataFrame) -> DataFrame:
    """Return rows of `gold.cross_exchange_1m` from all 1 m bars of their markets and minutes."""
    market = ("market", "base", "quote", "kind")
    priced = bars.withColumn("price", F.col("close") / F.col("multiplier"))
    place = F.struct("price", "exchange", "symbol")
    grouped = priced.groupBy(*market, F.col("open_ts").alias("minute")).agg(
        F.count(F.lit(1)).alias("venues"),
        F.avg("price").alias("mean_price"),
        F.min("price").alias("min_price"),
        F.max("price").alias("max_price"),
        F.min(place).alias("lowest"),
        F.max(place).alias("highest"),
    )
    spread = F.col("max_price") - F.col("min_price")
    several = grouped.where(F.col("venues") > 1)
    return several.select(
        "*",
        F.to_date("minute").alias("date"),
        F.when(F.col("mean_price") != 0, spread / F.col("mean_price") * BPS).alias(
            "dispersion_bps"
        ),
        F.col("lowest.exchange").alias("cheapest"),
        F.col("highest.exchange").alias("dearest"),
    ).select(*CROSS_EXCHANGE_1M.column_names)
