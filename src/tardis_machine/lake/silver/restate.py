"""Make rows of a Silver table anew from Bronze, for a span of local time.

Silver keeps the first copy of an event that comes. Here the copies compete again, and the one of
the newest mappers wins. Rows whose events Bronze no longer has stay as they are. Every step can
be repeated: what is right already is not written again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.silver.limits import EventLimits
from tardis_machine.lake.silver.rows import (
    PROBLEM,
    newest_per_event,
    quarantine_rows,
    silver_rows,
)
from tardis_machine.lake.store.caching import persisted
from tardis_machine.lake.store.changes import changed_rows
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.store.times import Times, in_spans, minute_of, on_days
from tardis_machine.lake.tables import Table
from tardis_machine.lake.tables.bronze import EVENTS
from tardis_machine.lake.tables.silver import QUARANTINE, TOUCHED_MINUTES


@dataclass(frozen=True)
class Restatement:
    """What of one table is made anew."""

    table: Table
    times: Times
    """Local times, of one UTC day."""
    exchange: str | None = None
    """None: all."""

    @property
    def bounds(self) -> tuple[str, ...]:
        """Return conditions on a table (`t`) that its rows meet."""
        times = on_days("date", [self.times]), in_spans("local_ts", [self.times])
        return times if self.exchange is None else (*times, f"t.exchange = '{self.exchange}'")

    def read(self, store: Store, table: Table) -> DataFrame:
        """Return the rows of a table that it concerns."""
        rows = store.read_times(table, "local_ts", [self.times]).where(" AND ".join(self.bounds))
        if "payload_case" in table.column_names:
            rows = rows.where(F.col("payload_case").isin(*self.table.cases))
        return rows


def has_events(store: Store, what: Restatement) -> bool:
    """Say whether Bronze may have events of a restatement, by its log alone."""
    cases = what.table.cases
    return bool(store.known_times(EVENTS, "local_ts", [what.times], payload_case=cases))


def restate(store: Store, what: Restatement, limits: EventLimits) -> dict[str, int]:
    """Replace the rows that differ, and return how many were inserted, updated and deleted."""
    table, events = what.table, what.read(store, EVENTS)
    with persisted(_decoded(events, table, limits)) as rows:
        good = rows.where(F.col(PROBLEM).isNull()).drop(PROBLEM)
        known = events.select(*table.key).distinct()
        old = what.read(store, table).join(known, list(table.key), "left_semi")
        new = newest_per_event(good, table)
        # Before the rows: who is killed in between leaves minutes to be computed once too often.
        _touch(store, what, [new, old])
        with persisted(changed_rows(new, old, table, deletes=True, tolerance=0)) as changes:
            counts = store.replace(changes, table, *what.bounds)
        if rows.where(F.col(PROBLEM).isNotNull()).limit(1).count() or store.known_times(
            QUARANTINE, "local_ts", [what.times]
        ):
            _restate_quarantine(store, what, events, limits)
    return counts


def _decoded(events: DataFrame, table: Table, limits: EventLimits) -> DataFrame:
    return _joined(silver_rows(_of_case(events, case), case, limits=limits) for case in table.cases)


def _touch(store: Store, what: Restatement, parts: Iterable[DataFrame]) -> None:
    """Let Gold of all minutes be computed again, also of those that events left, now or before."""
    table = what.table
    time = "event_ts" if "event_ts" in table.column_names else "local_ts"
    has_case = "payload_case" in table.column_names
    case = F.col("payload_case") if has_case else F.lit(table.cases[0])
    found = [
        rows.select(
            case.alias("payload_case"), "exchange", "symbol", minute_of(time).alias("minute")
        )
        for rows in parts
    ]
    names = ("payload_case", "exchange", "symbol", "minute")
    touched = store.read_times(TOUCHED_MINUTES, "minute", [what.times]).where(
        F.col("payload_case").isin(*table.cases)
    )
    if what.exchange is not None:
        touched = touched.where(F.col("exchange") == what.exchange)
    minutes = _joined([*found, touched.select(*names)]).distinct()
    dated = minutes.withColumn("date", F.to_date("minute"))
    store.append(dated.select(*TOUCHED_MINUTES.column_names).coalesce(1), TOUCHED_MINUTES)


def _restate_quarantine(
    store: Store, what: Restatement, events: DataFrame, limits: EventLimits
) -> None:
    rejected = _joined(
        quarantine_rows(_of_case(events, case), case, limits) for case in what.table.cases
    )
    # A bus that is read again from its start gives the same record twice.
    new = rejected.dropDuplicates(list(QUARANTINE.key))
    old = what.read(store, QUARANTINE)
    with persisted(changed_rows(new, old, QUARANTINE, deletes=True)) as changes:
        store.replace(changes, QUARANTINE, *what.bounds)


def _of_case(events: DataFrame, case: str) -> DataFrame:
    return events.where(F.col("payload_case") == case)


def _joined(parts: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, parts)
