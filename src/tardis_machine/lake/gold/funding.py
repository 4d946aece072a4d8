"""`gold.funding`: the last funding rate published for every funding event.

A rate is a state, not a quantity, so copies from several captures do no harm: all captures are
read, the latest rate wins, and a new one is compared with the one in the table.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.batch import Batch, Replacement, persisted
from tardis_machine.lake.gold.windows import SERIES
from tardis_machine.lake.store.times import Times
from tardis_machine.lake.tables.gold import FUNDING
from tardis_machine.lake.tables.silver import DERIVATIVE_TICKERS

_VALUES = (
    "funding_rate",
    "predicted_funding_rate",
    "mark_price",
    "index_price",
    "open_interest",
    "as_of_ts",
    "as_of_local_ts",
)


def recompute(batch: Batch) -> Iterator[Replacement]:
    """Yield the funding events that the tickers of the dirty minutes mention."""
    tickers = batch.silver_rows(DERIVATIVE_TICKERS, *DERIVATIVE_TICKERS.cases)
    new = tickers.transform(funding_rates).transform(last_rates)
    with persisted(new) as rates:
        funding_us = F.unix_micros("funding_ts")
        first_us, last_us = rates.agg(F.min(funding_us), F.max(funding_us)).collect()[0]
        if first_us is None:
            return
        span = Times(first_us, last_us)
        keys = [*SERIES, "funding_ts"]
        known = batch.gold_rows(FUNDING, span, "funding_ts")
        same = known.join(rates.select(*keys), keys, "left_semi")
        yield Replacement(rates.unionByName(same).transform(last_rates), span, "funding_ts")


def funding_rates(tickers: DataFrame) -> DataFrame:
    """Return every funding rate in the tickers, as rows of `gold.funding`."""
    rated = tickers.where(F.col("funding_ts").isNotNull() & F.col("funding_rate").isNotNull())
    dated = rated.withColumn("date", F.to_date("funding_ts"))
    return dated.withColumnsRenamed({"event_ts": "as_of_ts", "local_ts": "as_of_local_ts"}).select(
        *FUNDING.column_names
    )


def last_rates(rows: DataFrame) -> DataFrame:
    """Keep the last rate of each funding event."""
    order = F.struct("as_of_ts", "as_of_local_ts", *_VALUES[:5])
    latest = F.max_by(F.struct(*_VALUES), order).alias("latest")
    grouped = rows.groupBy("date", *SERIES, "funding_ts").agg(latest)
    return grouped.select("date", *SERIES, "funding_ts", "latest.*")
