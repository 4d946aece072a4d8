"""`gold.liquidations_1m`: forced orders per minute."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.windows import SERIES, minute_of
from tardis_machine.lake.tables.gold import LIQUIDATIONS_1M


def minute_liquidations(liquidations: DataFrame) -> DataFrame:
    """Return sums per minute and capture."""
    notional = F.col("price") * F.col("amount")
    keys = (*SERIES, "capture", minute_of("event_ts").alias("minute"))
    return liquidations.groupBy(*keys).agg(
        F.count_if(F.col("side") == "buy").alias("buys"),
        F.count_if(F.col("side") == "sell").alias("sells"),
        _sum("buy", F.col("amount")).alias("buy_volume"),
        _sum("sell", F.col("amount")).alias("sell_volume"),
        _sum("buy", notional).alias("buy_notional"),
        _sum("sell", notional).alias("sell_notional"),
    )


def _sum(side: str, value: Column) -> Column:
    return F.sum(F.when(F.col("side") == side, value).otherwise(F.lit(0.0)))


def finished_liquidations(minutes: DataFrame) -> DataFrame:
    """Return rows of `gold.liquidations_1m`."""
    return minutes.withColumn("date", F.to_date("minute")).select(*LIQUIDATIONS_1M.column_names)
