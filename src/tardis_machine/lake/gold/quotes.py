"""`gold.quotes_1s`: the last best bid and ask of every second."""

from collections.abc import Iterator
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.batch import Batch, Replacement
from tardis_machine.lake.gold.windows import (
    SERIES,
    in_dirty_minutes,
    of_preferred_capture,
    order_in_second,
)
from tardis_machine.lake.store.times import minute_of, second_of
from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.gold import QUOTES_1S
from tardis_machine.lake.tables.silver import BOOK_SNAPSHOTS, QUOTE_CASES, QUOTE_TABLES

_TOP = ("bid_price", "bid_amount", "ask_price", "ask_amount")


def recompute(batch: Batch) -> Iterator[Replacement]:
    """Yield the seconds of the dirty minutes."""
    parts = [
        batch.silver_rows(table, *QUOTE_CASES).transform(quote_events, table)
        for table in QUOTE_TABLES
        if batch.exists(table)
    ]
    seconds = reduce(DataFrame.unionByName, parts).transform(quote_seconds)
    preferred = of_preferred_capture(seconds, batch.coverage, "second")
    rows = preferred.transform(of_best_source).transform(finished_quotes)
    span = batch.dirty.span(*QUOTE_CASES)
    # A better source may replace another one for a whole minute.
    existing = batch.gold_rows(QUOTES_1S, span, "second").withColumn("event_ts", F.col("second"))
    old = in_dirty_minutes(existing, batch.minutes(*QUOTE_CASES), by_symbol=True)
    yield Replacement(rows, span, "second", old)


def quote_events(rows: DataFrame, table: Table) -> DataFrame:
    """Return best bid and ask of the rows of one source, with the rank of the source."""
    data_type = F.col("name") if table.is_computed else F.lit(table.cases[0])
    top = [F.col(name) for name in _TOP]
    if table is BOOK_SNAPSHOTS:
        top = [F.get(f"{name}s", F.lit(0)).alias(name) for name in _TOP]
    return rows.select(
        *SERIES,
        "capture",
        "event_ts",
        "local_ts",
        "ordinal",
        data_type.alias("data_type"),
        F.lit(QUOTE_TABLES.index(table)).alias("rank"),
        F.lit(table.name.partition(".")[2]).alias("basis"),
        *top,
    )


def quote_seconds(quotes: DataFrame) -> DataFrame:
    """Return the last quote of each second, per capture and data type."""
    ordered = quotes.withColumn("in_second", order_in_second())
    keys = (*SERIES, "rank", "basis", "data_type", "capture", second_of("event_ts").alias("second"))
    last = [F.max_by(name, "in_second").alias(name) for name in _TOP]
    return ordered.groupBy(*keys).agg(*last, F.count(F.lit(1)).alias("updates"))


def of_best_source(seconds: DataFrame) -> DataFrame:
    """Keep, per minute, the first source and its data type with the most quotes."""
    minute = Window.partitionBy(*SERIES, minute_of("second"))
    source = Window.partitionBy(*SERIES, minute_of("second"), "rank", "data_type")
    counted = seconds.withColumn("in_minute", F.sum("updates").over(source))
    place = F.struct("rank", -F.col("in_minute"), "data_type")
    best = counted.withColumn("place", place).withColumn("best", F.min("place").over(minute))
    return best.where(F.col("place") == F.col("best"))


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
