"""Bronze to Silver: one streaming query for all payload cases.

The stream carries only the header columns and the file of each row; from them a batch is planned.
Each case then reads its own files again, so that a batch decodes every envelope once, however many
cases it has.
"""

from dataclasses import dataclass
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.lake.arrow import Values, arrow, kernels
from tardis_machine.lake.gold.windows import minute_of
from tardis_machine.lake.silver.rows import (
    PROBLEM,
    first_per_event,
    refused_rows,
    silver_rows,
)
from tardis_machine.lake.store.log_stats import Times
from tardis_machine.lake.store.store import Store, Transaction, between_days, between_times
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

    @property
    def table(self) -> Table:
        """Return the table of the case."""
        return SILVER_BY_CASE[self.case]

    @property
    def days(self) -> str:
        """Return a condition on the table that holds for every row of the batch."""
        return between_days("date", self.first_date, self.last_date)


@dataclass(frozen=True)
class Batch:
    """What all cases of a batch share."""

    number: int
    store: Store
    split_rows: int
    has_repetitions: bool


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
    groups = headers.transform(grouped_by_minute).toArrow()
    if not len(groups):
        return
    repeats = has_repetitions(headers)
    for plan in plan_cases(groups):
        _refine_case(plan, Batch(batch_id, store, split_rows, repeats))
    # Last, so that a batch that broke off is planned again as a whole.
    touched = touched_minutes(groups)
    if len(touched):
        store.append(store.spark.createDataFrame(touched), TOUCHED_MINUTES)


def _refine_case(plan: CasePlan, batch: Batch) -> None:
    events = batch.store.read_files(EVENTS, plan.files)
    if plan.case not in SILVER_BY_CASE or _insert(events, plan, batch):
        batch.store.insert_new(refused_rows(events, plan.case), QUARANTINE, plan.days)


def _insert(events: DataFrame, plan: CasePlan, batch: Batch) -> int:
    """Add the events that the table lacks, and return how many rows were refused.

    Equal identities have equal local times. So rows outside of the times that the table already has
    are simply appended, and only the others are compared.
    """
    if plan.times is None:
        return plan.rows
    write = _Write(batch, plan, (plan.days, between_times("local_ts", plan.times)))
    overlap = batch.store.known_times(plan.table, "local_ts", plan.times)
    if overlap is None:
        return write.append(events)
    if overlap == plan.times or plan.rows < batch.split_rows:
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
    minute = minute_of(F.coalesce("event_ts", "local_ts")).alias("minute")
    local_us = F.unix_micros("local_ts")
    return headers.groupBy("file", "exchange", "symbol", minute).agg(
        # A file holds one case of one day.
        F.first("payload_case").alias("payload_case"),
        F.first("date").alias("date"),
        F.count(F.lit(1)).alias("rows"),
        F.min(local_us).alias("first_us"),
        F.max(local_us).alias("last_us"),
    )


def has_repetitions(headers: DataFrame) -> bool:
    """Say whether an identity (or, rarely, its hash) comes twice.

    Eight bytes per event in the driver cost a tenth of what a shuffle of all events does.
    """
    known = headers.where(F.col("payload_case").isin(*SILVER_BY_CASE))
    hashes = known.select(F.xxhash64(*IDENTITY).alias("hash")).toArrow()["hash"]
    return int(kernels.count_distinct(hashes).as_py()) < len(hashes)


def touched_minutes(groups: Values) -> Values:
    """Return rows of `silver.touched_minutes`."""
    is_known = kernels.is_in(groups["payload_case"], arrow.array(list(SILVER_BY_CASE)))
    known = groups.filter(kernels.and_(is_known, groups["minute"].is_valid()))
    dated = known.drop_columns("date").append_column("date", known["minute"].cast(arrow.date32()))
    return dated.group_by(list(TOUCHED_MINUTES.column_names)).aggregate([])


def plan_cases(groups: Values) -> list[CasePlan]:
    """Return what to do, case by case."""
    found = groups.group_by("payload_case").aggregate(
        [
            ("rows", "sum"),
            ("file", "distinct"),
            ("date", "min"),
            ("date", "max"),
            ("first_us", "min"),
            ("last_us", "max"),
        ]
    )
    return [_plan(row) for row in found.sort_by("payload_case").to_pylist()]


def _plan(row: dict[str, Any]) -> CasePlan:
    has_times = row["first_us_min"] is not None
    return CasePlan(
        case=row["payload_case"],
        rows=row["rows_sum"],
        files=tuple(sorted(row["file_distinct"])),
        first_date=row["date_min"],
        last_date=row["date_max"],
        times=Times(row["first_us_min"], row["last_us_max"]) if has_times else None,
    )


@dataclass(frozen=True)
class _Write:
    """One case of one batch on its way into its table."""

    batch: Batch
    plan: CasePlan
    bounds: tuple[str, ...]

    def append(self, events: DataFrame) -> int:
        """Add events that the table cannot have; return how many were refused."""
        rows, observed = self._good_rows(events)
        writer = f"{_query_id(events)}/{self.plan.case}"
        transaction = Transaction(writer, self.batch.number)
        self.batch.store.append(rows, self.plan.table, transaction)
        return int(observed.get["refused"])

    def insert_new(self, events: DataFrame) -> int:
        """Add the events that the table lacks; return how many were refused."""
        rows, observed = self._good_rows(events)
        self.batch.store.insert_new(rows, self.plan.table, *self.bounds)
        return int(observed.get["refused"])

    def _good_rows(self, events: DataFrame) -> tuple[DataFrame, Observation]:
        observed = Observation()
        refused = F.count_if(F.col(PROBLEM).isNotNull()).alias("refused")
        rows = silver_rows(events, self.plan.case).observe(observed, refused)
        good = rows.where(F.col(PROBLEM).isNull()).drop(PROBLEM)
        if self.batch.has_repetitions:
            good = first_per_event(good, self.plan.table)
        return good, observed
