"""`gold.bars`: trades to 1 s bars, and bars to longer bars."""

from collections.abc import Iterator, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.batch import Batch, Replacement
from tardis_machine.lake.gold.instruments import with_worth
from tardis_machine.lake.gold.windows import SERIES, of_preferred_capture, order_in_second
from tardis_machine.lake.store.caching import persisted
from tardis_machine.lake.store.times import Times, joined, second_of, whole_days
from tardis_machine.lake.tables.gold import BARS
from tardis_machine.lake.tables.silver import TRADES

INTERVALS = {"1s": 1, "1m": 60, "5m": 300, "1h": 3600, "1d": 86_400}
"""Seconds per interval."""
SHORT = ("1s", "1m")
"""Intervals of at most a minute: computed from trades."""
LONG = ("5m", "1h", "1d")
"""Intervals of at most a day: computed from the 1 m bars of that day."""


def recompute(batch: Batch) -> Iterator[Replacement]:
    """Yield the short bars of the dirty minutes, then the long bars of their days."""
    dirty, spans = batch.minutes(*TRADES.cases), batch.dirty.times(*TRADES.cases)
    trades = batch.silver_rows(TRADES, *TRADES.cases).transform(with_worth, batch.instruments)
    seconds = trades.transform(second_bars)
    typed = seconds.withColumn("data_type", F.lit(TRADES.cases[0]))
    preferred = of_preferred_capture(typed, batch.coverage, "open_ts")
    with persisted(preferred.drop("capture", "data_type")) as chosen:
        minutes = chosen.transform(longer_bars, "1m")
        short = chosen.withColumn("interval", F.lit("1s")).unionByName(minutes)
        yield _replacement(batch, short, SHORT, spans, dirty)
    days = joined(map(whole_days, spans))
    # These include the 1 m bars that were written just before.
    minutes = batch.gold_rows(BARS, days, "open_ts", interval=("1m",))
    in_days = minutes.transform(in_dirty_windows, dirty, "1d")
    yield _replacement(batch, in_days.transform(longer_bars, *LONG), LONG, days, dirty)


def _replacement(
    batch: Batch,
    rows: DataFrame,
    intervals: tuple[str, ...],
    spans: Sequence[Times],
    dirty: DataFrame,
) -> Replacement:
    old = None
    if batch.may_delete:
        existing = batch.gold_rows(BARS, spans, "open_ts", interval=intervals)
        whole = "1m" if intervals is SHORT else "1d"
        old = existing.transform(in_dirty_windows, dirty, whole)
    finished = rows.transform(finished_bars)
    return Replacement(finished, spans, "open_ts", old, {"interval": intervals})


def second_bars(trades: DataFrame) -> DataFrame:
    """Return 1 s bars per capture."""
    ordered = trades.withColumn("in_second", order_in_second())
    keys = (*SERIES, "capture", second_of("event_ts").alias("open_ts"))
    return ordered.groupBy(*keys).agg(
        F.min_by("price", "in_second").alias("open"),
        F.max("price").alias("high"),
        F.min("price").alias("low"),
        F.max_by("price", "in_second").alias("close"),
        F.sum("amount").alias("volume"),
        _sum_of_side("buy").alias("buy_volume"),
        _sum_of_side("sell").alias("sell_volume"),
        F.sum("worth").alias("notional"),
        F.sum(F.col("price") * F.col("amount")).alias("weighted"),
        F.count(F.lit(1)).alias("trades"),
    )


def _sum_of_side(side: str) -> Column:
    return F.sum(F.when(F.col("side") == side, F.col("amount")).otherwise(F.lit(0.0)))


def longer_bars(bars: DataFrame, *intervals: str) -> DataFrame:
    """Return bars of some intervals from all shorter bars in their windows."""
    windows = [
        F.struct(F.lit(name).alias("interval"), window_start("open_ts", name).alias("start"))
        for name in intervals
    ]
    if "weighted" not in bars.columns:
        # Bars without volume have no average price, and no weight.
        weighted = F.coalesce(F.col("vwap") * F.col("volume"), F.lit(0.0))
        bars = bars.withColumn("weighted", weighted)
    spread = bars.withColumn("window", F.explode(F.array(*windows)))
    grouped = spread.groupBy(*SERIES, "window.interval", "window.start").agg(
        F.min_by("open", "open_ts").alias("open"),
        F.max("high").alias("high"),
        F.min("low").alias("low"),
        F.max_by("close", "open_ts").alias("close"),
        F.sum("volume").alias("volume"),
        F.sum("buy_volume").alias("buy_volume"),
        F.sum("sell_volume").alias("sell_volume"),
        F.sum("notional").alias("notional"),
        F.sum("weighted").alias("weighted"),
        F.sum("trades").alias("trades"),
    )
    return grouped.withColumnRenamed("start", "open_ts")


def window_start(column: str, interval: str) -> Column:
    """Return the start of the interval that contains a time."""
    seconds = INTERVALS[interval]
    return F.timestamp_seconds(F.floor(F.unix_seconds(column) / seconds) * seconds)


def finished_bars(bars: DataFrame) -> DataFrame:
    """Return rows of `gold.bars`."""
    vwap = F.when(F.col("volume") != 0, F.col("weighted") / F.col("volume"))
    day = F.to_date("open_ts")
    return bars.select("*", day.alias("date"), vwap.alias("vwap")).select(*BARS.column_names)


def in_dirty_windows(bars: DataFrame, dirty: DataFrame, interval: str) -> DataFrame:
    """Keep bars whose window of an interval contains a dirty minute."""
    window = window_start("minute", interval).alias("window")
    windows = F.broadcast(dirty.select(*SERIES, window))
    placed = bars.withColumn("window", window_start("open_ts", interval))
    return placed.join(windows, [*SERIES, "window"], "left_semi").drop("window")
