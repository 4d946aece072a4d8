"""`gold.cross_exchange_1m`: how far the last prices of one market lie apart between venues."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.tables.gold import CROSS_EXCHANGE_1M

_PREFIX = r"^(PI|PF)_"
_SUFFIX = r"(PERPETUAL|PERP|SWAP)$"
BPS = 10_000


def market_of(symbol: str) -> Column:
    """Return a name that a market has on every venue: BTCUSDT for BTC-USDT-SWAP and the like."""
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
