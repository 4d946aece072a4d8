"""One batch of dirty minutes: what Gold tables read for it, and how their rows are replaced."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

from pyspark.sql import DataFrame

from tardis_machine.lake.arrow import Values, arrow_schema, kernels
from tardis_machine.lake.bronze.headers import PARTIAL
from tardis_machine.lake.gold.coverage import coverage_rows, events_of
from tardis_machine.lake.gold.dirty_minutes import DirtyMinutes
from tardis_machine.lake.gold.instruments import with_validity
from tardis_machine.lake.gold.windows import in_dirty_minutes
from tardis_machine.lake.roots import is_local
from tardis_machine.lake.store.caching import persisted
from tardis_machine.lake.store.changes import changed_rows
from tardis_machine.lake.store.few_changes import changed_few
from tardis_machine.lake.store.few_rows import MAX_ROWS, can_express, read_few
from tardis_machine.lake.store.log_stats import rows_near
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.store.times import Times, in_spans, on_days
from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.gold import COVERAGE
from tardis_machine.lake.tables.instruments import INSTRUMENTS
from tardis_machine.lake.tables.silver import (
    CONTROL_EVENTS,
    DISCONNECT,
    EVENT_TABLES,
    QUOTE_CASES,
    QUOTE_TABLES,
)


@dataclass(frozen=True)
class Replacement:
    """Rows of a Gold table that take the place of those in the same windows."""

    rows: DataFrame
    spans: Sequence[Times]
    """Times that hold all windows."""
    time: str
    """Name of the column with the start of the window."""
    old: DataFrame | None = None
    """Existing rows to delete where `rows` has none of the same key; None: nothing is deleted."""
    partitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Partition values that all rows have, by column."""


class Batch:
    """One batch of dirty minutes, shared by all Gold tables."""

    def __init__(self, store: Store, dirty: DirtyMinutes, *, restates: bool = False) -> None:
        """Recompute dirty minutes; `restates`: events may have gone from them, not only come."""
        self.dirty = dirty
        self.restates = restates
        self._store = store

    def prepare(self) -> None:
        """Compute what several tables use, so that none of them does it while another one does."""
        _ = self.coverage, self.instruments

    def reads_few(self) -> bool:
        """Say whether the events of the dirty minutes are few."""
        if not self.dirty.is_few or not is_local(self._store.root):
            return False
        rows = (
            rows_near(self._store.path(table), "event_ts", self.dirty.times(*cases))
            for table in EVENT_TABLES
            if table is not CONTROL_EVENTS
            and self.dirty.has(*(cases := _cases_that_touch(table)))
            and self.exists(table)
        )
        return sum(rows) <= MAX_ROWS

    def minutes(self, *cases: str) -> DataFrame:
        """Return exchange, symbol and dirty minute of some payload cases, each once."""
        return self.dirty.of(self._store.spark, *cases)

    def exists(self, table: Table) -> bool:
        """Say whether a table was ever written."""
        return self._store.exists(table)

    def silver_rows(self, table: Table, *cases: str) -> DataFrame:
        """Return the rows of a Silver table in the dirty minutes of some payload cases."""
        rows = self._store.read_times(table, "event_ts", self.dirty.times(*cases))
        by_symbol = DISCONNECT not in cases or not self.dirty.has(DISCONNECT)
        return in_dirty_minutes(rows, self.minutes(*cases), by_symbol=by_symbol)

    def rows_between(self, table: Table, time: str, spans: Sequence[Times]) -> DataFrame:
        """Return the rows of a table whose time is in any of the spans."""
        return self._store.read_times(table, time, spans)

    def gold_rows(
        self, table: Table, spans: Sequence[Times], time: str, **partitions: Sequence[str]
    ) -> DataFrame:
        """Return the existing rows of a Gold table in some spans and partitions."""
        rows = self._store.read_times(table, time, spans)
        return rows.where(" AND ".join(_conditions(spans, time, partitions)))

    @cached_property
    def coverage(self) -> DataFrame:
        """Return rows of `gold.coverage` for the dirty minutes; few, so the driver keeps them."""
        return self._store.spark.createDataFrame(self._covered)

    @cached_property
    def instruments(self) -> DataFrame:
        """Return the instruments with their validity; few, so the driver keeps them."""
        found = self._store.collect(INSTRUMENTS)
        return self._store.spark.createDataFrame(with_validity(found))

    @property
    def may_delete(self) -> bool:
        """Say whether rows may go: with events, or because another capture is preferred now."""
        return self.restates or kernels.all(self._covered["is_preferred"]).as_py() is False

    def has_partial(self, data_type: str) -> bool:
        """Say whether a dirty minute has a capture of a data type that may lack something."""
        rows = self._covered.filter(kernels.equal(self._covered["data_type"], data_type))
        return kernels.any(kernels.starts_with(rows["capture"], PARTIAL)).as_py() is True

    @cached_property
    def _covered(self) -> Values:
        parts = [
            self.silver_rows(table, *cases).transform(events_of, table)
            for table in EVENT_TABLES
            if table is not CONTROL_EVENTS
            and self.dirty.has(*(cases := _cases_that_touch(table)))
            and self.exists(table)
        ]
        if not parts:
            return arrow_schema(COVERAGE).empty_table()
        minutes = self.dirty.times(*self.dirty.spans)
        disconnects = self._store.read_times(CONTROL_EVENTS, "local_ts", minutes)
        return coverage_rows(reduce(DataFrame.unionByName, parts), disconnects).toArrow()

    def write(self, table: Table, new: Replacement) -> None:
        """Write the rows that differ from those in the table."""
        store, spans, time = self._store, new.spans, new.time
        few = self.dirty.is_few and can_express(spans) and is_local(store.root)
        bounds = _conditions(spans, time, new.partitions)
        # Where the driver reads the old rows, it sees for the same price that there are none.
        sees = few and new.old is None and store.exists(table)
        if not sees and not store.known_times(table, time, spans, **new.partitions):
            store.append(new.rows, table, few=few)
            return
        if few:
            store.replace_arrow(self._few_changes(table, new), table, *bounds)
            return
        old = new.old
        if old is None:
            old = self.gold_rows(table, spans, time, **new.partitions)
        with persisted(changed_rows(new.rows, old, table, deletes=new.old is not None)) as changes:
            store.replace(changes, table, *bounds)

    def _few_changes(self, table: Table, new: Replacement) -> Values:
        """Return what differs, in the memory of the driver."""
        path, rows = self._store.path(table), new.rows.toArrow()
        if new.old is None:
            old = read_few(path, table, new.time, new.spans, **new.partitions)
            return changed_few(rows, old, table, deletes=False)
        return changed_few(rows, new.old.toArrow(), table, deletes=True)


def _cases_that_touch(table: Table) -> tuple[str, ...]:
    """Return the payload cases whose events make minutes of a table dirty."""
    # The best source of quotes is chosen among all quote tables.
    cases = QUOTE_CASES if table in QUOTE_TABLES else table.cases
    return (*cases, DISCONNECT)


def _conditions(
    spans: Sequence[Times], time: str, partitions: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return conditions on a table (`t`) for some spans and partitions."""
    named = [f"t.{name} IN ({', '.join(map(repr, values))})" for name, values in partitions.items()]
    return [on_days("date", spans), in_spans(time, spans), *named]
