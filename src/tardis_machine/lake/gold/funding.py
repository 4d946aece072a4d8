"""`gold.funding`: the last funding rate that was stated for every funding event.

A statement is a state, not a quantity: two captures of it do no harm. So all captures count, the
latest statement wins, and a new one is compared with what the table has.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.windows import SERIES
from tardis_machine.lake.tables.gold import FUNDING

_VALUES = (
    "funding_rate",
    "predicted_funding_rate",
    "mark_price",
    "index_price",
    "open_interest",
    "as_of_ts",
    "as_of_local_ts",
)


def statements(tickers: DataFrame) -> DataFrame:
    """Return what the tickers say about funding events, as rows of `gold.funding`."""
    stated = tickers.where(F.col("funding_ts").isNotNull() & F.col("funding_rate").isNotNull())
    dated = stated.withColumn("date", F.to_date("funding_ts"))
    return dated.withColumnsRenamed({"event_ts": "as_of_ts", "local_ts": "as_of_local_ts"}).select(
        *FUNDING.column_names
    )


def last_statements(rows: DataFrame) -> DataFrame:
    """Keep the last statement about each funding event."""
    order = F.struct("as_of_ts", "as_of_local_ts", *_VALUES[:5])
    latest = F.max_by(F.struct(*_VALUES), order).alias("latest")
    grouped = rows.groupBy("date", *SERIES, "funding_ts").agg(latest)
    return grouped.select("date", *SERIES, "funding_ts", "latest.*")
