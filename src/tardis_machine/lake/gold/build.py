"""Silver to Gold: the windows that a batch touched are computed again from Silver and merged.

So late data corrects Gold, and a stream ends with the same tables as one batch over everything.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.lake.arrow import Values, kernels
from tardis_machine.lake.gold import bars, coverage, cross_exchange, funding, liquidations, quotes
from tardis_machine.lake.gold.dirty_minutes import Touched, collect_touched, whole_days
from tardis_machine.lake.gold.windows import SERIES, in_touched_minutes, of_preferred_capture
from tardis_machine.lake.spark.schemas import arrow_schema
from tardis_machine.lake.store.changes import changed_rows
from tardis_machine.lake.store.log_stats import Times
from tardis_machine.lake.store.store import Store, between_days, between_times
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
    DISCONNECT,
    EVENT_TABLES,
    LIQUIDATIONS,
    TOUCHED_MINUTES,
    TRADES,
)
from tardis_machine.model.time import DAY_US, civil_from_days

QUERY = "serve"
MAX_TOUCHED_BYTES = 1 << 20
"""Touched minutes that one batch takes: some hundred thousand, which the driver holds at once."""
QUOTE_CASES = tuple(case for table in quotes.SOURCES for case in table.cases)


def serve_writer(store: Store, max_batch_bytes: int = MAX_TOUCHED_BYTES) -> DataStreamWriter:
    """Return the streaming query; the caller sets its trigger and starts it."""
    store.create(TOUCHED_MINUTES)
    touched = (
        store.spark.readStream.format("delta")
        .option("maxBytesPerTrigger", min(max_batch_bytes, MAX_TOUCHED_BYTES))
        .load(store.path(TOUCHED_MINUTES))
    )
    return (
        touched.writeStream.queryName(QUERY)
        .option("checkpointLocation", store.checkpoint(QUERY))
        .foreachBatch(lambda batch, _: serve_batch(batch, store))
    )


def serve_batch(minutes: DataFrame, store: Store) -> None:
    """Bring the Gold tables up to date for some touched minutes."""
    touched = collect_touched(minutes)
    if touched.has(*SILVER_BY_CASE):
        Serving(store, touched).write()


@contextmanager
def persisted(rows: DataFrame) -> Iterator[DataFrame]:
    """Keep rows that are used several times."""
    rows.persist()
    try:
        yield rows
    finally:
        rows.unpersist()


class Serving:
    """One batch on its way into the Gold tables."""

    def __init__(self, store: Store, touched: Touched) -> None:
        self._store = store
        self._touched = touched

    def write(self) -> None:
        """Write every Gold table that the batch touches."""
        self._write_coverage()
        if self._touched.has(*TRADES.cases):
            self._write_bars()
            if self._has_several_series():
                self._write_dispersion()
        if self._touched.has(*QUOTE_CASES):
            self._write_quotes()
        if self._touched.has(*LIQUIDATIONS.cases):
            self._write_liquidations()
        if self._touched.has(*DERIVATIVE_TICKERS.cases):
            self._write_funding()

    def _rows_in_touched(self, table: Table, *cases: str) -> DataFrame:
        rows = self._store.read_times(table, "event_ts", self._touched.times(*cases))
        by_symbol = DISCONNECT not in cases or not self._touched.has(DISCONNECT)
        return in_touched_minutes(rows, self._minutes(*cases), by_symbol=by_symbol)

    def _minutes(self, *cases: str) -> DataFrame:
        return self._touched.of(self._store.spark, *cases)

    def _write_coverage(self) -> None:
        self._replace(self._covered, COVERAGE, self._touched.span(*self._touched.spans), "minute")

    @cached_property
    def _covered(self) -> DataFrame:
        """Coverage of the touched minutes; as few rows as those, so the driver keeps them too."""
        return self._store.spark.createDataFrame(self._coverage)

    @cached_property
    def _coverage(self) -> Values:
        parts = [
            self._rows_in_touched(table, *cases).transform(coverage.events_of, table)
            for table in EVENT_TABLES
            if table is not CONTROL_EVENTS
            and self._touched.has(*(cases := _cases_that_touch(table)))
            and self._store.exists(table)
        ]
        if not parts:
            return arrow_schema(COVERAGE).empty_table()
        minutes = self._touched.times(*self._touched.spans)
        disconnects = self._store.read_times(CONTROL_EVENTS, "local_ts", minutes)
        events = reduce(DataFrame.unionByName, parts)
        return coverage.coverage_rows(events, disconnects).toArrow()

    @property
    def _may_shrink(self) -> bool:
        """Say whether another capture may have taken over a minute, so that rows may vanish."""
        return kernels.all(self._coverage["is_preferred"]).as_py() is False

    def _write_bars(self) -> None:
        cases = TRADES.cases
        touched, span = self._minutes(*cases), self._touched.span(*cases)
        trades = self._rows_in_touched(TRADES, *cases)
        seconds = trades.transform(bars.second_bars).withColumn("data_type", F.lit(cases[0]))
        preferred = of_preferred_capture(seconds, self._covered, "open_ts")
        with persisted(preferred.drop("capture", "data_type")) as chosen:
            minutes = chosen.transform(bars.longer_bars, "1m")
            short = chosen.withColumn("interval", F.lit("1s")).unionByName(minutes)
            self._replace_bars(short, bars.SHORT, span, touched)
        days = whole_days(span)
        minutes = self._existing(BARS, days, "open_ts", interval=("1m",))
        in_days = minutes.transform(bars.in_touched_windows, touched, "1d")
        long = in_days.transform(bars.longer_bars, *bars.LONG)
        self._replace_bars(long, bars.LONG, days, touched)

    def _replace_bars(
        self, rows: DataFrame, intervals: tuple[str, ...], span: Times, touched: DataFrame
    ) -> None:
        gone = None
        if self._may_shrink:
            existing = self._existing(BARS, span, "open_ts", interval=intervals)
            whole = "1m" if intervals is bars.SHORT else "1d"
            gone = existing.transform(bars.in_touched_windows, touched, whole)
        finished = rows.transform(bars.finished_bars)
        self._replace(finished, BARS, span, "open_ts", old=gone, interval=intervals)

    def _has_several_series(self) -> bool:
        """Say whether there is anything to compare, or was."""
        if self._store.exists(CROSS_EXCHANGE_1M):
            return True
        series = self._existing(BARS, self._touched.span(*TRADES.cases), "open_ts")
        return series.select(*SERIES).distinct().limit(2).count() > 1

    def _write_dispersion(self) -> None:
        span = self._touched.span(*TRADES.cases)
        all_bars = self._existing(BARS, span, "open_ts", interval=("1m",))
        touched = self._minutes(*TRADES.cases).transform(cross_exchange.with_market)
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
        parts = [
            self._rows_in_touched(table, *QUOTE_CASES).transform(quotes.quote_events, table)
            for table in quotes.SOURCES
            if self._store.exists(table)
        ]
        seconds = reduce(DataFrame.unionByName, parts).transform(quotes.quote_seconds)
        preferred = of_preferred_capture(seconds, self._covered, "second")
        rows = preferred.transform(quotes.of_best_source).transform(quotes.finished_quotes)
        span = self._touched.span(*QUOTE_CASES)
        # Another source may have taken over a minute.
        existing = self._existing(QUOTES_1S, span, "second").withColumn("event_ts", F.col("second"))
        old = in_touched_minutes(existing, self._minutes(*QUOTE_CASES), by_symbol=True)
        self._replace(rows, QUOTES_1S, span, "second", old=old)

    def _write_liquidations(self) -> None:
        cases = LIQUIDATIONS.cases
        events = self._rows_in_touched(LIQUIDATIONS, *cases)
        sums = events.transform(liquidations.minute_liquidations)
        typed = sums.withColumn("data_type", F.lit(cases[0]))
        preferred = of_preferred_capture(typed, self._covered, "minute")
        rows = preferred.transform(liquidations.finished_liquidations)
        self._replace(rows, LIQUIDATIONS_1M, self._touched.span(*cases), "minute")

    def _write_funding(self) -> None:
        cases = DERIVATIVE_TICKERS.cases
        tickers = self._rows_in_touched(DERIVATIVE_TICKERS, *cases)
        new = tickers.transform(funding.statements).transform(funding.last_statements)
        with persisted(new) as stated:
            funding_us = F.unix_micros("funding_ts")
            first, last = stated.agg(F.min(funding_us), F.max(funding_us)).collect()[0]
            if first is None:
                return
            span = Times(first, last)
            keys = [*SERIES, "funding_ts"]
            known = self._existing(FUNDING, span, "funding_ts")
            same = known.join(stated.select(*keys), keys, "left_semi")
            rows = stated.unionByName(same).transform(funding.last_statements)
            self._replace(rows, FUNDING, span, "funding_ts")

    def _existing(
        self, table: Table, span: Times, time: str, **partitions: Sequence[str]
    ) -> DataFrame:
        """Return the rows of a Gold table within a span and some partitions."""
        rows = self._store.read_times(table, time, [span])
        return rows.where(" AND ".join(_within(span, time, partitions)))

    def _replace(
        self,
        rows: DataFrame,
        table: Table,
        span: Times,
        time: str,
        *,
        old: DataFrame | None = None,
        **partitions: Sequence[str],
    ) -> None:
        """Write rows, and delete those of `old` that are not among them."""
        store = self._store
        if store.known_times(table, time, span, **partitions) is None:
            store.append(rows, table)
            return
        known = old if old is not None else self._existing(table, span, time, **partitions)
        with persisted(changed_rows(rows, known, table, deletes=old is not None)) as changes:
            store.replace(changes, table, *_within(span, time, partitions))


def _cases_that_touch(table: Table) -> tuple[str, ...]:
    """Return the cases whose events have the minutes of a table read again."""
    # Which source of quotes is the best is decided among all of them.
    cases = QUOTE_CASES if table in quotes.SOURCES else table.cases
    return (*cases, DISCONNECT)


def _within(span: Times, time: str, partitions: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the conditions on a table that hold in a span and some partitions."""
    first, last = (date(*civil_from_days(time_us // DAY_US)) for time_us in span)
    named = [f"t.{name} IN ({', '.join(map(repr, values))})" for name, values in partitions.items()]
    return [between_days("date", first, last), between_times(time, span), *named]
