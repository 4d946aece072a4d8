"""What events are worth, and which market they belong to, by `silver.instruments`."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.windows import SERIES


def latest(instruments: DataFrame) -> DataFrame:
    """Keep the newest row of each symbol."""
    newest = F.max("valid_from").over(Window.partitionBy(*SERIES))
    return instruments.withColumn("newest", newest).where("valid_from = newest").drop("newest")


def with_worth(executions: DataFrame, instruments: DataFrame) -> DataFrame:
    """Add `worth`: what each execution is worth in the quote currency."""
    known = instruments.select(*SERIES, "is_inverse", "contract_size")
    joined = executions.join(F.broadcast(known), list(SERIES), "left_outer")
    linear = F.col("price") * F.col("amount")
    is_unknown = F.col("is_inverse").isNull()
    size = F.col("contract_size")
    worth = (
        F.when(is_unknown, linear)
        .when(F.col("is_inverse"), F.col("amount") * size)
        .otherwise(linear * size)
    )
    return joined.withColumn("worth", worth).drop("is_inverse", "contract_size")


def with_market(rows: DataFrame, instruments: DataFrame) -> DataFrame:
    """Add base, quote, kind, multiplier and `market`; options and unknown symbols are left out."""
    columns = ("base", "quote", "kind", "multiplier")
    others = instruments.where("kind <> 'option'")
    known = others.select(*SERIES, *columns, _market().alias("market"))
    return rows.join(F.broadcast(known), list(SERIES), "inner")


def _market() -> Column:
    """Return the name of a market: what instruments must share to be compared."""
    pair = F.concat_ws("/", "base", "quote")
    return F.concat_ws(" ", pair, "kind", F.date_format("expiry_ts", "yyyy-MM-dd"))
