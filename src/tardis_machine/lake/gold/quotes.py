"""`gold.quotes_1s`: the last best bid and ask of every second."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.windows import SERIES, minute_of, order_in_second, second_of
from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.gold import QUOTES_1S
from tardis_machine.lake.tables.silver import BOOK_SNAPSHOTS, BOOK_TICKERS, QUOTES

SOURCES = (QUOTES, BOOK_TICKERS, BOOK_SNAPSHOTS)
"""Where quotes come from; of two sources in one minute, the first counts."""

_TOP = ("bid_price", "bid_amount", "ask_price", "ask_amount")


def quote_events(rows: DataFrame, table: Table) -> DataFrame:
    """Return best bid and ask of the rows of one source, with what ranks them."""
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
        F.lit(SOURCES.index(table)).alias("rank"),
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
    """Keep, per minute, the first source and of it the data type with the most quotes."""
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
