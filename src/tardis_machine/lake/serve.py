"""Silver to Gold: the windows that a batch touched are computed again from Silver and merged.

So late data corrects Gold, and a stream ends with the same tables as one batch over everything.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.lake.changes import changed_rows
from tardis_machine.lake.gold import bars, coverage, cross_exchange, funding, liquidations, quotes
from tardis_machine.lake.gold.windows import SERIES, in_touched_minutes, of_preferred_capture
from tardis_machine.lake.store import Store, between_days, between_times
from tardis_machine.lake.tables import SILVER_BY_CASE, Table
from tardis_machine.lake.tables.gold import (
    BARS,
    COVERAGE,
    CROSS_EXCHANGE_1M,
    FUNDING,
    LIQUIDATIONS_1M,
    QUOTES_1S,
)
from tardis_machine.lake.tables.silver import (
    CONTROL_EVENTS,
    DERIVATIVE_TICKERS,
    EVENT_TABLES,
    LIQUIDATIONS,
    TOUCHED_MINUTES,
    TRADES,
)
from tardis_machine.lake.touched import Span, Touched, find_spans
from tardis_machine.model.time import DAY_US

QUERY = "serve"
DISCONNECT = "disconnect"


def serve_writer(store: Store, max_batch_bytes: int) -> DataStreamWriter:
    """Return the streaming query; the caller sets its trigger and starts it."""
    store.create(TOUCHED_MINUTES)
    touched = (
        store.spark.readStream.format("delta")
        .option("maxBytesPerTrigger", max_batch_bytes)
        .load(store.path(TOUCHED_MINUTES))
    )
    return (
        touched.writeStream.queryName(QUERY)
        .option("checkpointLocation", store.checkpoint(QUERY))
        .foreachBatch(lambda batch, _: serve_batch(batch, store))
    )


def serve_batch(minutes: DataFrame, store: Store) -> None:
    """Bring the Gold tables up to date for some touched minutes."""
    # A disconnect concerns every symbol of its exchange.
    symbol = F.when(F.col("payload_case") != DISCONNECT, F.col("symbol"))
    rows = minutes.select("payload_case", "exchange", symbol.alias("symbol"), "minute").distinct()
    with persisted(rows) as kept:
        touched = Touched(kept, find_spans(kept))
        with persisted(_coverage(touched, store)) as covered:
            Serving(store, touched, covered).write()


@contextmanager
def persisted(rows: DataFrame) -> Iterator[DataFrame]:
    """Keep rows that are used several times."""
    rows.persist()
    try:
        yield rows
    finally:
        rows.unpersist()


def _coverage(touched: Touched, store: Store) -> DataFrame:
    """Return the new coverage of all touched minutes."""
    parts = []
    for table in EVENT_TABLES:
        cases = (*table.cases, DISCONNECT)
        if table is not CONTROL_EVENTS and touched.has(*cases) and store.exists(table):
            rows = _rows_in_touched(store, touched, table, cases)
            parts.append(rows.transform(coverage.events_of, table))
    if not parts:
        return store.spark.createDataFrame([], store.read(COVERAGE).schema)
    span = touched.span(*touched.spans)
    is_near = between_times("local_ts", span.first_us, span.last_us)
    disconnects = store.read(CONTROL_EVENTS).alias("t").where(is_near)
    return coverage.coverage_rows(reduce(DataFrame.unionByName, parts), disconnects)


def _rows_in_touched(
    store: Store, touched: Touched, table: Table, cases: tuple[str, ...]
) -> DataFrame:
    rows = store.read(table).alias("t").where(touched.condition("event_ts", *cases))
    return in_touched_minutes(rows, touched.of(*cases))


class Serving:
    """One batch on its way into the Gold tables."""

    def __init__(self, store: Store, touched: Touched, covered: DataFrame) -> None:
        self._store = store
        self._touched = touched
        self._covered = covered

    def write(self) -> None:
        """Write every Gold table that the batch touches."""
        if not self._touched.has(*SILVER_BY_CASE):
            return
        self._write_coverage()
        if self._touched.has(*TRADES.cases):
            self._write_bars()
            if self._has_several_series():
                self._write_dispersion()
        if self._touched.has(*(case for table in quotes.SOURCES for case in table.cases)):
            self._write_quotes()
        if self._touched.has(*LIQUIDATIONS.cases):
            self._write_liquidations()
        if self._touched.has(*DERIVATIVE_TICKERS.cases):
            self._write_funding()

    def _write_coverage(self) -> None:
        self._replace(self._covered, COVERAGE, self._touched.span(*self._touched.spans), "minute")

    def _write_bars(self) -> None:
        cases = TRADES.cases
        touched, span = self._touched.of(*cases), self._touched.span(*cases)
        trades = _rows_in_touched(self._store, self._touched, TRADES, cases)
        seconds = trades.transform(bars.second_bars).withColumn("data_type", F.lit(cases[0]))
        preferred = of_preferred_capture(seconds, self._covered, "open_ts")
        with persisted(preferred.drop("capture", "data_type")) as chosen:
            minutes = chosen.transform(bars.longer_bars, "1m")
            short = chosen.withColumn("interval", F.lit("1s")).unionByName(minutes)
            self._replace_bars(short, bars.SHORT, span, touched)
        days = day_span(span)
        minutes = self._existing(BARS, days, "open_ts").where("interval = '1m'")
        in_days = minutes.transform(bars.in_touched_windows, touched, "1d")
        long = in_days.transform(bars.longer_bars, *bars.LONG)
        self._replace_bars(long, bars.LONG, days, touched)

    def _replace_bars(
        self, rows: DataFrame, intervals: tuple[str, ...], span: Span, touched: DataFrame
    ) -> None:
        named = f"t.interval IN ({', '.join(map(repr, intervals))})"
        gone = None
        if self._may_shrink:
            existing = self._existing(BARS, span, "open_ts").where(named)
            whole = "1m" if intervals is bars.SHORT else "1d"
            gone = existing.transform(bars.in_touched_windows, touched, whole)
        self._replace(rows.transform(bars.finished_bars), BARS, span, "open_ts", named, old=gone)

    @cached_property
    def _may_shrink(self) -> bool:
        """Say whether another capture may have taken over a minute, so that rows may vanish."""
        return not self._covered.where("NOT is_preferred").isEmpty()

    def _has_several_series(self) -> bool:
        """Say whether there is anything to compare, or was."""
        if self._store.exists(CROSS_EXCHANGE_1M):
            return True
        series = self._existing(BARS, self._touched.span(*TRADES.cases), "open_ts")
        return series.select(*SERIES).distinct().limit(2).count() > 1

    def _write_dispersion(self) -> None:
        span = self._touched.span(*TRADES.cases)
        all_bars = self._existing(BARS, span, "open_ts").where("interval = '1m'")
        touched = self._touched.of(*TRADES.cases).transform(cross_exchange.with_market)
        keys = F.broadcast(touched.select("market", F.col("minute").alias("open_ts")).distinct())
        minutes = all_bars.transform(cross_exchange.with_market).join(
            keys, ["market", "open_ts"], "left_semi"
        )
        old = self._existing(CROSS_EXCHANGE_1M, span, "minute").join(
            keys.withColumnRenamed("open_ts", "minute"), ["market", "minute"], "left_semi"
        )
        rows = minutes.transform(cross_exchange.dispersion)
        self._replace(rows, CROSS_EXCHANGE_1M, span, "minute", old=old)

    def _write_quotes(self) -> None:
        cases = tuple(case for table in quotes.SOURCES for case in table.cases)
        parts = [
            _rows_in_touched(self._store, self._touched, table, cases).transform(
                quotes.quote_events, table
            )
            for table in quotes.SOURCES
            if self._store.exists(table)
        ]
        seconds = reduce(DataFrame.unionByName, parts).transform(quotes.quote_seconds)
        preferred = of_preferred_capture(seconds, self._covered, "second")
        rows = preferred.transform(quotes.of_best_source).transform(quotes.finished_quotes)
        span = self._touched.span(*cases)
        existing = self._existing(QUOTES_1S, span, "second").withColumn("event_ts", F.col("second"))
        # Another source may have taken over a minute.
        old = in_touched_minutes(existing, self._touched.of(*cases)).drop("event_ts")
        self._replace(rows, QUOTES_1S, span, "second", old=old)

    def _write_liquidations(self) -> None:
        cases = LIQUIDATIONS.cases
        events = _rows_in_touched(self._store, self._touched, LIQUIDATIONS, cases)
        sums = events.transform(liquidations.minute_liquidations)
        typed = sums.withColumn("data_type", F.lit(cases[0]))
        preferred = of_preferred_capture(typed, self._covered, "minute")
        rows = preferred.transform(liquidations.finished_liquidations)
        self._replace(rows, LIQUIDATIONS_1M, self._touched.span(*cases), "minute")

    def _write_funding(self) -> None:
        cases = DERIVATIVE_TICKERS.cases
        tickers = _rows_in_touched(self._store, self._touched, DERIVATIVE_TICKERS, cases)
        new = tickers.transform(funding.statements).transform(funding.last_statements)
        with persisted(new) as stated:
            funding_us = F.unix_micros("funding_ts")
            first, last = stated.agg(F.min(funding_us), F.max(funding_us)).collect()[0]
            if first is None:
                return
            span = Span(first, last)
            keys = [*SERIES, "funding_ts"]
            known = self._existing(FUNDING, span, "funding_ts")
            same = known.join(stated.select(*keys), keys, "left_semi")
            rows = stated.unionByName(same).transform(funding.last_statements)
            self._replace(rows, FUNDING, span, "funding_ts")

    def _existing(self, table: Table, span: Span, time: str) -> DataFrame:
        """Return the rows of a Gold table within a span."""
        return self._store.read(table).alias("t").where(_within(span, time))

    def _replace(
        self,
        rows: DataFrame,
        table: Table,
        span: Span,
        time: str,
        *conditions: str,
        old: DataFrame | None = None,
    ) -> None:
        """Write rows, and delete those of `old` that are not among them."""
        store = self._store
        if store.known_times(table, time, span.first_us, span.last_us) is None:
            store.append(rows, table)
            return
        bounds = (_within(span, time), *conditions)
        known = old if old is not None else store.read(table).alias("t").where(" AND ".join(bounds))
        with persisted(changed_rows(rows, known, table, deletes=old is not None)) as changes:
            store.replace(changes, table, *bounds)


def day_span(span: Span) -> Span:
    """Return the whole days that a span touches."""
    first_us, last_us = (time_us - time_us % DAY_US for time_us in (span.first_us, span.last_us))
    return Span(first_us, last_us + DAY_US - 1)


def _within(span: Span, time: str) -> str:
    days = between_days("date", *span.days)
    return f"{days} AND {between_times(time, span.first_us, span.last_us)}"
