"""`gold.funding`: the last funding rate published for every funding event.

A rate is a state, not a quantity, so copies from several captures do no harm: all captures are
read, the latest rate wins, and a new one is compared with the one in the table. But tickers of a
partial capture may lack values. Where there is one, only preferred captures are read, from as long
before the funding as it may have been announced.
"""

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.batch import Batch, Replacement
from tardis_machine.lake.gold.windows import SERIES, of_preferred_capture
from tardis_machine.lake.store.caching import persisted
from tardis_machine.lake.store.times import Times, joined
from tardis_machine.lake.tables.gold import COVERAGE, FUNDING
from tardis_machine.lake.tables.silver import DERIVATIVE_TICKERS
from tardis_machine.model.time import DAY_US, MINUTE_US

NOTICE_US = DAY_US
"""How long before a funding exchanges announce its rate, at most."""
(_TICKER,) = DERIVATIVE_TICKERS.cases
_KEYS = (*SERIES, "funding_ts")
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
    with persisted(tickers.transform(funding_rates).transform(last_rates)) as rates:
        funding_us = F.unix_micros("funding_ts")
        days = rates.groupBy("date").agg(F.min(funding_us), F.max(funding_us)).collect()
        if not days:
            return
        spans = joined(Times(first_us, last_us) for _, first_us, last_us in days)
        known = batch.gold_rows(FUNDING, spans, "funding_ts")
        same = known.join(rates.select(*_KEYS), list(_KEYS), "left_semi")
        if batch.restates or batch.has_partial(_TICKER):
            preferred = _preferred_rates(batch, spans)
            new = preferred.join(rates.select(*_KEYS), list(_KEYS), "left_semi")
            yield Replacement(new.transform(last_rates), spans, "funding_ts", same)
        else:
            yield Replacement(rates.unionByName(same).transform(last_rates), spans, "funding_ts")


def _preferred_rates(batch: Batch, spans: Sequence[Times]) -> DataFrame:
    """Return the rates that preferred captures have for the funding events of some spans."""
    near = [Times(span.first_us - NOTICE_US, span.last_us + NOTICE_US) for span in spans]
    near = joined([*near, *batch.dirty.times(_TICKER)])
    tickers = batch.rows_between(DERIVATIVE_TICKERS, "event_ts", near)
    typed = tickers.withColumn("data_type", F.lit(_TICKER))
    minutes = [Times(span.first_us - MINUTE_US, span.last_us) for span in near]
    # Written just before.
    coverage = batch.rows_between(COVERAGE, "minute", minutes)
    return of_preferred_capture(typed, coverage, "event_ts").transform(funding_rates)


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
