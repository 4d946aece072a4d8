"""`gold.quotes_1s`: the best bid and ask that stood at the end of every second.

A quote per interval has the end of its interval as its time and says what stood before it. So a
`quote_1s` of 12:01:00 belongs to the second 12:00:59, and to the minute before.
"""

from collections.abc import Iterator
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.batch import Batch, Replacement
from tardis_machine.lake.gold.windows import SERIES, of_preferred_capture, order_in_second
from tardis_machine.lake.store.times import Times, minute_of, second_of
from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.gold import COVERAGE, QUOTES_1S
from tardis_machine.lake.tables.silver import (
    BOOK_SNAPSHOTS,
    BOOK_TICKERS,
    QUOTE_CASES,
    QUOTE_TABLES,
)
from tardis_machine.model.time import MINUTE_US, SECOND_US

_TOP = ("bid_price", "bid_amount", "ask_price", "ask_amount")
_LAST_SECOND_US = MINUTE_US - SECOND_US


def recompute(batch: Batch) -> Iterator[Replacement]:
    """Yield the seconds that quotes of the dirty minutes belong to."""
    slots = batch.minutes(*QUOTE_CASES).transform(dirty_slots)
    spans = batch.dirty.times(*QUOTE_CASES)
    # A second ends with the first microsecond of the next one.
    near = [Times(span.first_us - SECOND_US, span.last_us + 1) for span in spans]
    parts = [
        batch.rows_between(table, "event_ts", near).transform(quote_events, table)
        for table in QUOTE_TABLES
        if batch.exists(table)
    ]
    quotes = reduce(DataFrame.unionByName, parts).transform(in_slots, slots)
    # Written just before; of the minutes beside the dirty ones, too.
    minutes = [Times(span.first_us - MINUTE_US, span.last_us + 1) for span in spans]
    coverage = batch.rows_between(COVERAGE, "minute", minutes)
    preferred = of_preferred_capture(quotes, coverage, "event_ts").transform(quote_seconds)
    rows = preferred.transform(of_finest_source).transform(finished_quotes)
    changed = [Times(span.first_us - SECOND_US, span.last_us) for span in spans]
    # A finer source may take the place of another one.
    old = batch.gold_rows(QUOTES_1S, changed, "second").transform(in_slots, slots)
    yield Replacement(rows, changed, "second", old)


def dirty_slots(minutes: DataFrame) -> DataFrame:
    """Return the dirty minutes, and the last second of those before them, as series and slot."""
    start_us = F.unix_micros("minute")
    slots = [start_us, start_us + F.lit(_LAST_SECOND_US), start_us - F.lit(SECOND_US)]
    return minutes.select(*SERIES, F.explode(F.array(*slots)).alias("slot"))


def in_slots(rows: DataFrame, slots: DataFrame) -> DataFrame:
    """Keep rows whose second is in a dirty slot: the last second of a minute, or the others."""
    second_us = F.unix_micros("second")
    start_us = F.unix_micros(minute_of("second"))
    is_last = second_us - start_us == F.lit(_LAST_SECOND_US)
    # The slots of a minute are its last second, and the others under the name of the first.
    slot = F.when(is_last, second_us).otherwise(start_us)
    placed = rows.withColumn("slot", slot)
    return placed.join(F.broadcast(slots), [*SERIES, "slot"], "left_semi").drop("slot")


def quote_events(rows: DataFrame, table: Table) -> DataFrame:
    """Return best bid and ask of the rows of one source, the second of each, and its resolution."""
    data_type = F.col("name") if table.is_computed else F.lit(table.cases[0])
    interval = F.lit(0.0) if table is BOOK_TICKERS else F.coalesce("interval", F.lit(0.0))
    stood_us = F.unix_micros("event_ts") - F.when(interval > 0, 1).otherwise(0)
    top = [F.col(name) for name in _TOP]
    if table is BOOK_SNAPSHOTS:
        top = [F.get(f"{name}s", F.lit(0)).alias(name) for name in _TOP]
    stood = F.timestamp_micros(stood_us)
    return rows.select(
        *SERIES,
        "capture",
        "event_ts",
        "local_ts",
        "ordinal",
        stood.alias("stood_ts"),
        second_of(stood).alias("second"),
        data_type.alias("data_type"),
        interval.alias("resolution"),
        F.lit(QUOTE_TABLES.index(table)).alias("rank"),
        F.lit(table.name.partition(".")[2]).alias("basis"),
        *top,
    )


def quote_seconds(quotes: DataFrame) -> DataFrame:
    """Return the last quote of each second, per data type; of one capture."""
    ordered = quotes.withColumn("in_second", order_in_second("stood_ts"))
    keys = (*SERIES, "resolution", "rank", "basis", "data_type", "second")
    last = [F.max_by(name, "in_second").alias(name) for name in _TOP]
    return ordered.groupBy(*keys).agg(*last, F.count(F.lit(1)).alias("updates"))


def of_finest_source(seconds: DataFrame) -> DataFrame:
    """Keep, per second, the source with the shortest interval; of several, the first."""
    place = F.struct("resolution", "rank", "data_type")
    best = F.min("place").over(Window.partitionBy(*SERIES, "second"))
    ranked = seconds.withColumn("place", place).withColumn("best", best)
    return ranked.where(F.col("place") == F.col("best"))


def finished_quotes(seconds: DataFrame) -> DataFrame:
    """Return rows of `gold.quotes_1s`."""
    bid, bid_amount, ask, ask_amount = (F.col(name) for name in _TOP)
    return seconds.select(
        "*",
        F.to_date("second").alias("date"),
        (ask - bid).alias("spread"),
        ((ask + bid) / 2).alias("mid"),
        _microprice(bid, bid_amount, ask, ask_amount).alias("microprice"),
    ).select(*QUOTES_1S.column_names)


def _microprice(bid: Column, bid_amount: Column, ask: Column, ask_amount: Column) -> Column:
    total = bid_amount + ask_amount
    return F.when(total != 0, (bid * ask_amount + ask * bid_amount) / total)
