"""Bronze to Silver: one streaming query for all payload cases.

The stream carries only the header columns and the file of each row; from them a batch is planned.
Each case then reads its own files again, so that a batch decodes every envelope once, however many
cases it has.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, Observation, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.lake.schemas import spark_schema
from tardis_machine.lake.silver import (
    PROBLEM,
    first_per_event,
    refused_rows,
    repeated_cases,
    silver_rows,
)
from tardis_machine.lake.store import Store, Transaction, between_days, between_times, time_literal
from tardis_machine.lake.tables import SILVER_BY_CASE, Table
from tardis_machine.lake.tables.bronze import EVENTS, IDENTITY
from tardis_machine.lake.tables.silver import QUARANTINE, TOUCHED_MINUTES

QUERY = "refine"
_HEADER = tuple(dict.fromkeys((*IDENTITY, "date", "event_ts")))


@dataclass(frozen=True)
class CasePlan:
    """What a batch holds of one payload case."""

    case: str
    files: tuple[str, ...]
    first_date: date
    last_date: date
    span_us: tuple[int, int] | None
    """First and last local time; None when no row has one."""
    has_repetitions: bool

    @property
    def table(self) -> Table:
        """Return the table of the case."""
        return SILVER_BY_CASE[self.case]

    @property
    def days(self) -> str:
        """Return a condition on the table that holds for every row of the batch."""
        return between_days("date", self.first_date, self.last_date)


def refine_writer(store: Store, max_batch_bytes: int) -> DataStreamWriter:
    """Return the streaming query; the caller sets its trigger and starts it."""
    # What is merged comes from immutable files, so that two evaluations give the same rows.
    store.spark.conf.set("spark.databricks.delta.merge.materializeSource", "none")
    store.create(EVENTS)
    store.create(TOUCHED_MINUTES)
    events = (
        store.spark.readStream.format("delta")
        .option("maxBytesPerTrigger", max_batch_bytes)
        .load(store.path(EVENTS))
    )
    headers = events.select(*_HEADER, F.input_file_name().alias("file"))
    return (
        headers.writeStream.queryName(QUERY)
        .option("checkpointLocation", store.checkpoint(QUERY))
        .foreachBatch(Refiner(store).refine)
    )


class Refiner:
    """Brings batches of Bronze files into Silver; doing one again changes nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # The last local time per table that this object wrote. It starts empty with every query,
        # so that a batch that broke off is compared with what it left behind.
        self._newest_us: dict[str, int] = {}

    def refine(self, headers: DataFrame, batch_id: int) -> None:
        """Refine one batch, given the header columns and the file of each row."""
        groups = headers.transform(grouped_by_minute).persist()
        try:
            plans = plan_batch(groups, headers)
            for plan in plans:
                self._refine_case(plan, batch_id)
            # Last, so that a batch that broke off is planned again as a whole.
            if any(plan.case in SILVER_BY_CASE for plan in plans):
                self._store.append(groups.transform(touched_minutes), TOUCHED_MINUTES)
        finally:
            groups.unpersist()

    def _refine_case(self, plan: CasePlan, batch_id: int) -> None:
        events = read_files(self._store, plan.files)
        if plan.case not in SILVER_BY_CASE or self._insert(events, plan, batch_id):
            self._store.insert_new(refused_rows(events, plan.case), QUARANTINE, plan.days)

    def _insert(self, events: DataFrame, plan: CasePlan, batch_id: int) -> int:
        """Add the events that the table lacks, and return how many rows were refused.

        Equal identities have equal local times. So rows outside of the times that the table already
        has are simply appended, and only the others are compared.
        """
        if plan.span_us is None:
            return 1
        first_us, last_us = plan.span_us
        bounds = (plan.days, between_times("local_ts", first_us, last_us))
        transaction = Transaction(f"{_query_id(events)}/{plan.case}", batch_id)
        write = _Write(self._store, plan, bounds, transaction)
        newest_us = self._newest_from(plan.table, first_us)
        overlap = known_times(self._store, plan.table, bounds) if newest_us is not None else None
        if overlap is None:
            refused = write.append(events)
        else:
            is_inside = F.expr(between_times("local_ts", *overlap))
            refused = write.insert_new(events.alias("t").where(is_inside))
            if first_us < overlap[0] or last_us > overlap[1]:
                refused += write.append(events.alias("t").where(~is_inside))
        self._newest_us[plan.table.name] = max(last_us, newest_us or last_us)
        return refused

    def _newest_from(self, table: Table, first_us: int) -> int | None:
        """Return the newest local time of a table, None when it is before `first_us`."""
        newest_us = self._newest_us.get(table.name)
        if newest_us is None:
            span = known_times(self._store, table, [f"t.local_ts >= {time_literal(first_us)}"])
            return span and span[1]
        return newest_us if newest_us >= first_us else None


def _query_id(rows: DataFrame) -> str:
    """Return the id of the running query, which stays the same over restarts."""
    context = rows.sparkSession.sparkContext
    return str(context.getLocalProperty("sql.streaming.queryId"))


def grouped_by_minute(headers: DataFrame) -> DataFrame:
    """Return files, minutes and bounds of the rows: all that planning needs, in few rows."""
    minute = F.date_trunc("minute", F.coalesce("event_ts", "local_ts"))
    groups = headers.groupBy(
        "payload_case", "exchange", "symbol", "date", "file", minute.alias("minute")
    )
    local_us = F.unix_micros("local_ts")
    return groups.agg(F.min(local_us).alias("first_us"), F.max(local_us).alias("last_us"))


def touched_minutes(groups: DataFrame) -> DataFrame:
    """Return rows of `silver.touched_minutes`."""
    known = groups.where(F.col("payload_case").isin(*SILVER_BY_CASE) & F.col("minute").isNotNull())
    days = known.withColumn("date", F.to_date("minute"))
    return days.select(*TOUCHED_MINUTES.column_names).distinct()


def plan_batch(groups: DataFrame, headers: DataFrame) -> list[CasePlan]:
    """Return what to do, case by case."""
    found = groups.groupBy("payload_case").agg(
        F.collect_set("file").alias("files"),
        F.min("date").alias("first_date"),
        F.max("date").alias("last_date"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
    )
    rows = found.orderBy("payload_case").collect()
    repeated = {row.payload_case for row in repeated_cases(headers).collect()} if rows else set()
    return [_plan(row, has_repetitions=row.payload_case in repeated) for row in rows]


def _plan(row: Row, *, has_repetitions: bool) -> CasePlan:
    return CasePlan(
        case=row.payload_case,
        files=tuple(sorted(row.files)),
        first_date=row.first_date,
        last_date=row.last_date,
        span_us=None if row.first_us is None else (row.first_us, row.last_us),
        has_repetitions=has_repetitions,
    )


def read_files(store: Store, files: Iterable[str]) -> DataFrame:
    """Return the Bronze rows of some files."""
    reader = store.spark.read.schema(spark_schema(EVENTS))
    return reader.option("basePath", store.path(EVENTS)).parquet(*files)


def known_times(store: Store, table: Table, bounds: Iterable[str]) -> tuple[int, int] | None:
    """Return the first and last local time (µs) that a table has within bounds, if any."""
    rows = store.read(table).alias("t").where(" AND ".join(bounds))
    local_us = F.unix_micros("local_ts")
    first_us, last_us = rows.agg(F.min(local_us), F.max(local_us)).collect()[0]
    return None if first_us is None else (first_us, last_us)


@dataclass(frozen=True)
class _Write:
    """One case of one batch on its way into its table."""

    store: Store
    plan: CasePlan
    bounds: tuple[str, ...]
    transaction: Transaction

    def append(self, events: DataFrame) -> int:
        """Add events that the table cannot have; return how many were refused."""
        rows, observed = self._good_rows(events)
        self.store.append(rows, self.plan.table, self.transaction)
        return int(observed.get["refused"])

    def insert_new(self, events: DataFrame) -> int:
        """Add the events that the table lacks; return how many were refused."""
        rows, observed = self._good_rows(events)
        self.store.insert_new(rows, self.plan.table, *self.bounds)
        return int(observed.get["refused"])

    def _good_rows(self, events: DataFrame) -> tuple[DataFrame, Observation]:
        observed = Observation()
        refused = F.count_if(F.col(PROBLEM).isNotNull()).alias("refused")
        rows = silver_rows(events, self.plan.case).observe(observed, refused)
        good = rows.where(F.col(PROBLEM).isNull()).drop(PROBLEM)
        if self.plan.has_repetitions:
            good = first_per_event(good, self.plan.table)
        return good, observed
