"""Bronze to Silver: one streaming query for all payload cases.

The stream carries only the header columns and the file of each row; from them a batch is planned.
Each case then reads its own files again, so that a batch decodes every envelope once, however many
cases it has.
"""

from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, Observation, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.lake.log_stats import Times
from tardis_machine.lake.silver import (
    PROBLEM,
    first_per_event,
    refused_rows,
    repeated_cases,
    silver_rows,
)
from tardis_machine.lake.store import Store, Transaction, between_days, between_times
from tardis_machine.lake.tables import SILVER_BY_CASE, Table
from tardis_machine.lake.tables.bronze import EVENTS, IDENTITY
from tardis_machine.lake.tables.silver import QUARANTINE, TOUCHED_MINUTES

QUERY = "refine"
SPLIT_ROWS = 100_000
"""Rows from which two writes, one of them a plain append, cost less than one merge."""
_HEADER = tuple(dict.fromkeys((*IDENTITY, "date", "event_ts")))


@dataclass(frozen=True)
class CasePlan:
    """What a batch holds of one payload case."""

    case: str
    rows: int
    files: tuple[str, ...]
    first_date: date
    last_date: date
    times: Times | None
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


def refine_writer(
    store: Store, max_batch_bytes: int, split_rows: int = SPLIT_ROWS
) -> DataStreamWriter:
    """Return the streaming query; the caller sets its trigger and starts it.

    Args:
        store: Where the tables are.
        max_batch_bytes: How much of Bronze is read at once.
        split_rows: From so many rows on, those that a table cannot have yet are written apart.
    """
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
        .foreachBatch(lambda batch, batch_id: refine_batch(batch, batch_id, store, split_rows))
    )


def refine_batch(headers: DataFrame, batch_id: int, store: Store, split_rows: int) -> None:
    """Bring one batch of Bronze files into Silver; doing it again changes nothing.

    Args:
        headers: Header columns and file of each row.
        batch_id: Number of the batch in its query.
        store: Where the tables are.
        split_rows: As in `refine_writer`.
    """
    groups = headers.transform(grouped_by_minute).persist()
    try:
        plans = plan_batch(groups, headers)
        for plan in plans:
            _refine_case(plan, batch_id, store, split_rows)
        # Last, so that a batch that broke off is planned again as a whole.
        if any(plan.case in SILVER_BY_CASE for plan in plans):
            store.append(groups.transform(touched_minutes), TOUCHED_MINUTES)
    finally:
        groups.unpersist()


def _refine_case(plan: CasePlan, batch_id: int, store: Store, split_rows: int) -> None:
    events = store.read_files(EVENTS, plan.files)
    if plan.case not in SILVER_BY_CASE or _insert(events, plan, batch_id, store, split_rows):
        store.insert_new(refused_rows(events, plan.case), QUARANTINE, plan.days)


def _insert(events: DataFrame, plan: CasePlan, batch_id: int, store: Store, split_rows: int) -> int:
    """Add the events that the table lacks, and return how many rows were refused.

    Equal identities have equal local times. So rows outside of the times that the table already has
    are simply appended, and only the others are compared.
    """
    if plan.times is None:
        return plan.rows
    bounds = (plan.days, between_times("local_ts", plan.times))
    write = _Write(store, plan, bounds, Transaction(f"{_query_id(events)}/{plan.case}", batch_id))
    overlap = store.known_times(plan.table, "local_ts", plan.times)
    if overlap is None:
        return write.append(events)
    if overlap == plan.times or plan.rows < split_rows:
        return write.insert_new(events)
    # A row without a local time is refused, on whichever side it is.
    is_inside = F.coalesce(F.expr(between_times("local_ts", overlap)), F.lit(False))
    refused = write.insert_new(events.alias("t").where(is_inside))
    return refused + write.append(events.alias("t").where(~is_inside))


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
    return groups.agg(
        F.count(F.lit(1)).alias("rows"),
        F.min(local_us).alias("first_us"),
        F.max(local_us).alias("last_us"),
    )


def touched_minutes(groups: DataFrame) -> DataFrame:
    """Return rows of `silver.touched_minutes`."""
    known = groups.where(F.col("payload_case").isin(*SILVER_BY_CASE) & F.col("minute").isNotNull())
    days = known.withColumn("date", F.to_date("minute"))
    return days.select(*TOUCHED_MINUTES.column_names).distinct()


def plan_batch(groups: DataFrame, headers: DataFrame) -> list[CasePlan]:
    """Return what to do, case by case."""
    found = groups.groupBy("payload_case").agg(
        F.sum("rows").alias("rows"),
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
        rows=row.rows,
        files=tuple(sorted(row.files)),
        first_date=row.first_date,
        last_date=row.last_date,
        times=None if row.first_us is None else Times(row.first_us, row.last_us),
        has_repetitions=has_repetitions,
    )


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
