"""What events are worth, and which market they belong to, by `silver.instruments`."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.arrow import Values, arrow
from tardis_machine.lake.gold.windows import SERIES


def with_validity(instruments: Values) -> Values:
    """Add `valid_until`: when the next row of the symbol begins; null: it holds for good.

    Args:
        instruments: Rows of `silver.instruments` as an Arrow table.
    """
    ordered = instruments.sort_by([(name, "ascending") for name in (*SERIES, "valid_from")])
    keys = list(zip(*(ordered[name].to_pylist() for name in SERIES), strict=True))
    starts = ordered["valid_from"].to_pylist()
    ends = [
        following if key == next_key else None
        for key, (next_key, following) in zip(
            keys, [*zip(keys[1:], starts[1:], strict=True), (None, None)], strict=False
        )
    ]
    until = arrow.array(ends, ordered.schema.field("valid_from").type)
    return ordered.append_column("valid_until", until)


def with_worth(executions: DataFrame, instruments: DataFrame) -> DataFrame:
    """Add `worth`: what each execution is worth in the quote currency, by the row of its time.

    Args:
        executions: Rows with exchange, symbol, event_ts, price and amount.
        instruments: Rows of `silver.instruments` with their validity.
    """
    facts = ("is_inverse", "contract_size", "valid_from", "valid_until")
    known = F.broadcast(instruments.select(*SERIES, *facts)).alias("i")
    rows = executions.alias("e")
    holds = (F.col("event_ts") >= F.col("valid_from")) & (
        F.col("valid_until").isNull() | (F.col("event_ts") < F.col("valid_until"))
    )
    same = [F.col(f"e.{name}") == F.col(f"i.{name}") for name in SERIES]
    joined = rows.join(known, [*same, holds], "left_outer").select("e.*", *facts)
    linear = F.col("price") * F.col("amount")
    is_unknown = F.col("is_inverse").isNull()
    size = F.col("contract_size")
    worth = (
        F.when(is_unknown, linear)
        .when(F.col("is_inverse"), F.col("amount") * size)
        .otherwise(linear * size)
    )
    return joined.withColumn("worth", worth).drop(*facts)


def with_market(rows: DataFrame, instruments: DataFrame) -> DataFrame:
    """Add base, quote, kind, multiplier and `market`; options and unknown symbols are left out."""
    columns = ("base", "quote", "kind", "multiplier")
    others = instruments.where("kind <> 'option' AND valid_until IS NULL")
    known = others.select(*SERIES, *columns, _market().alias("market"))
    return rows.join(F.broadcast(known), list(SERIES), "inner")


def _market() -> Column:
    """Return the name of a market: what instruments must share to be compared."""
    pair = F.concat_ws("/", "base", "quote")
    return F.concat_ws(" ", pair, "kind", F.date_format("expiry_ts", "yyyy-MM-dd"))
