"""`gold.cross_exchange_1m`: how far the last prices of one market differ between exchanges."""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.batch import Batch, Replacement
from tardis_machine.lake.gold.windows import SERIES
from tardis_machine.lake.tables.gold import BARS, CROSS_EXCHANGE_1M
from tardis_machine.lake.tables.silver import TRADES

_PREFIX = r"^(PI|PF)_"
_SUFFIX = r"(PERPETUAL|PERP|SWAP)$"
BPS = 10_000


def recompute(batch: Batch) -> Iterator[Replacement]:
    """Yield the rows of the markets and minutes with new trades, from `gold.bars`."""
    if not _has_several_series(batch):
        return
    span = batch.dirty.span(*TRADES.cases)
    dirty = batch.minutes(*TRADES.cases).transform(with_market)
    keys = F.broadcast(dirty.select("market", F.col("minute").alias("open_ts")).distinct())
    bars = batch.gold_rows(BARS, span, "open_ts", interval=("1m",)).transform(with_market)
    rows = bars.join(keys, ["market", "open_ts"], "left_semi").transform(dispersion)
    old = batch.gold_rows(CROSS_EXCHANGE_1M, span, "minute").join(
        keys.withColumnRenamed("open_ts", "minute"), ["market", "minute"], "left_semi"
    )
    yield Replacement(rows, span, "minute", old)


def _has_several_series(batch: Batch) -> bool:
    """Say whether there are prices to compare, or were before."""
    if batch.exists(CROSS_EXCHANGE_1M):
        return True
    series = batch.gold_rows(BARS, batch.dirty.span(*TRADES.cases), "open_ts")
    return series.select(*SERIES).distinct().limit(2).count() > 1


def market_of(symbol: str) -> Column:
    """Return the name of a market that all exchanges share: BTCUSDT for BTC-USDT-SWAP."""
    plain = F.regexp_replace(F.upper(symbol), _PREFIX, "")
    letters = F.regexp_replace(plain, "[^A-Z0-9]", "")
    return F.regexp_replace(F.regexp_replace(letters, _SUFFIX, ""), "XBT", "BTC")


def with_market(bars: DataFrame) -> DataFrame:
    """Add the market of each bar's symbol."""
    return bars.withColumn("market", market_of("symbol"))


def dispersion(bars: DataFrame) -> DataFrame:
    """Return rows of `gold.cross_exchange_1m` from all 1 m bars of their markets and minutes."""
    place = F.struct("close", "exchange", "symbol")
    grouped = bars.groupBy("market", F.col("open_ts").alias("minute")).agg(
        F.count(F.lit(1)).alias("venues"),
        F.avg("close").alias("mean_price"),
        F.min("close").alias("min_price"),
        F.max("close").alias("max_price"),
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
