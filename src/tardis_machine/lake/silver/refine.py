"""The job from Bronze to Silver: one streaming query for all payload cases.

The stream carries only the header columns and the file of each row, enough to plan a batch. Each
payload case then reads its own files again, so that every envelope is decoded once, however many
cases a batch has.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.lake.arrow import Values
from tardis_machine.lake.silver.instruments import Instruments
from tardis_machine.lake.silver.limits import EventLimits
from tardis_machine.lake.silver.plan import (
    CasePlan,
    grouped_by_minute,
    has_repetitions,
    plan_cases,
    touched_minutes,
)
from tardis_machine.lake.silver.rows import (
    DEFAULT_LIMITS,
    PROBLEM,
    first_per_event,
    quarantine_rows,
    silver_rows,
)
from tardis_machine.lake.spark.few_rows import for_few_rows
from tardis_machine.lake.spark.threads import side_by_side
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.store.times import in_spans
from tardis_machine.lake.tables import SILVER_BY_CASE
from tardis_machine.lake.tables.bronze import EVENTS
from tardis_machine.lake.tables.silver import QUARANTINE, TOUCHED_MINUTES

QUERY = "refine"
SPLIT_ROWS = 100_000
"""From this many rows on, a MERGE plus an append cost less than one larger MERGE."""
_HEADER = ("date", "payload_case", "exchange", "symbol", "event_ts", "local_ts")


@dataclass(frozen=True)
class Batch:
    """What all payload cases of a batch share."""

    store: Store
    split_rows: int
    has_repetitions: bool
    limits: EventLimits


def refine_writer(
    store: Store,
    max_batch_bytes: int,
    split_rows: int = SPLIT_ROWS,
    limits: EventLimits = DEFAULT_LIMITS,
) -> DataStreamWriter:
    """Return the streaming query; the caller sets its trigger and starts it.

    Args:
        store: Where the tables are.
        max_batch_bytes: Bronze bytes read per batch.
        split_rows: Rows of a payload case from which the rows that cannot already be in the
            table are appended apart from the MERGE.
        limits: Which event times are rejected.
    """
    # The MERGE source reads immutable files: evaluating it twice gives the same rows, so Delta
    # need not materialize it.
    store.spark.conf.set("spark.databricks.delta.merge.materializeSource", "none")
    store.create(TOUCHED_MINUTES)
    events = store.stream(EVENTS, QUERY, max_batch_bytes)
    headers = events.select(*_HEADER, F.input_file_name().alias("file"))
    instruments = Instruments(store)

    def refine(batch: DataFrame, _: int) -> None:
        refine_batch(batch, store, split_rows, limits, instruments)

    return (
        headers.writeStream.queryName(QUERY)
        .option("checkpointLocation", store.checkpoint(QUERY))
        .foreachBatch(refine)
    )


def refine_batch(
    headers: DataFrame,
    store: Store,
    split_rows: int,
    limits: EventLimits,
    instruments: Instruments,
) -> None:
    """Write one batch of Bronze files to Silver; a repeated batch changes nothing.

    Args:
        headers: Header columns and file of each row.
        store: Where the tables are.
        split_rows: As in `refine_writer`.
        limits: As in `refine_writer`.
        instruments: Keeps the table of instruments.
    """
    groups = headers.transform(grouped_by_minute).toArrow()
    if not len(groups):
        return
    plans = plan_cases(groups)
    with for_few_rows(store.spark, when=all(plan.is_few for plan in plans)):
        # Not of `headers`: Spark would count those rows of the stream twice.
        files = [file for plan in plans for file in plan.files]
        repeats = has_repetitions(store.read_files(EVENTS, files))
        batch = Batch(store, split_rows, repeats, limits)
        noted = partial(_note, instruments, groups)
        calls = [partial(_insert_all, group, batch) for group in _by_table(plans)]
        # One after another: they are written to one table.
        for plan in chain.from_iterable(side_by_side(store.spark, [*calls, noted])):
            _reject(plan, batch)
    # Last, so that a batch that fails midway is planned again as a whole.
    touched = touched_minutes(limits.near_minutes(groups))
    if len(touched):
        store.append_arrow(touched, TOUCHED_MINUTES)


def _by_table(plans: Iterable[CasePlan]) -> list[list[CasePlan]]:
    """Return the plans of each table; those of cases without a table come one by one."""
    groups: dict[str, list[CasePlan]] = {}
    for plan in plans:
        table = SILVER_BY_CASE.get(plan.case)
        groups.setdefault(plan.case if table is None else table.name, []).append(plan)
    return list(groups.values())


def _insert_all(plans: Iterable[CasePlan], batch: Batch) -> list[CasePlan]:
    """Insert the events of one table, and return the plans of which some were rejected."""
    return [plan for plan in plans if plan.case not in SILVER_BY_CASE or _insert(plan, batch)]


def _note(instruments: Instruments, groups: Values) -> list[CasePlan]:
    """Write the instruments of new symbols; none is rejected."""
    instruments.note(groups)
    return []


def _reject(plan: CasePlan, batch: Batch) -> None:
    events = batch.store.read_files(EVENTS, plan.files)
    rows = quarantine_rows(events, plan.case, batch.limits)
    batch.store.insert_new(rows, QUARANTINE, plan.days, few=plan.is_few)


def _insert(plan: CasePlan, batch: Batch) -> int:
    """Insert the events that are not in the table, and return how many rows were rejected.

    Events with equal identity have equal local times. Rows that cannot already be in the table are
    therefore appended; only overlapping time ranges use MERGE. What a batch wrote before it failed
    overlaps with its repetition, so nothing is written twice.
    """
    if not plan.spans:
        return plan.rows
    events = batch.store.read_files(EVENTS, plan.files)
    write = _Write(batch, plan, (plan.days, in_spans("local_ts", plan.spans)))
    overlap = batch.store.known_times(plan.table, "local_ts", plan.spans)
    if not overlap:
        return write.append(events)
    if overlap == list(plan.spans) or plan.rows < batch.split_rows:
        return write.insert_new(events)
    # A row without a local time is rejected, in either write.
    is_inside = F.coalesce(F.expr(in_spans("local_ts", overlap)), F.lit(False))
    rejected = write.insert_new(events.alias("t").where(is_inside))
    return rejected + write.append(events.alias("t").where(~is_inside))


@dataclass(frozen=True)
class _Write:
    """Writes one payload case of one batch to its table."""

    batch: Batch
    plan: CasePlan
    bounds: tuple[str, ...]

    def append(self, events: DataFrame) -> int:
        """Append events that cannot be in the table; return how many were rejected."""
        rows, observed = self._good_rows(events)
        self.batch.store.append(rows, self.plan.table, few=self.plan.is_few)
        return int(observed.get["rejected"])

    def insert_new(self, events: DataFrame) -> int:
        """Merge events; return how many were rejected."""
        rows, observed = self._good_rows(events)
        table, few = self.plan.table, self.plan.is_few
        self.batch.store.insert_new(rows, table, *self.bounds, few=few)
        return int(observed.get["rejected"])

    def _good_rows(self, events: DataFrame) -> tuple[DataFrame, Observation]:
        observed = Observation()
        rejected = F.count_if(F.col(PROBLEM).isNotNull()).alias("rejected")
        decoded = silver_rows(events, self.plan.case, limits=self.batch.limits)
        rows = decoded.observe(observed, rejected)
        good = rows.where(F.col(PROBLEM).isNull()).drop(PROBLEM)
        if self.batch.has_repetitions:
            good = first_per_event(good, self.plan.table)
        return good, observed
