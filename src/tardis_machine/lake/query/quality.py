"""Data quality checks over the tables, without Spark.

A check is a SELECT that returns rows that should not exist. An error means that a table is wrong; a
warning, that the data from the exchange or the bus is.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tardis_machine.lake.query.checks import Check, Severity
from tardis_machine.lake.query.gold_checks import gold_differences
from tardis_machine.lake.query.inventory import list_tables
from tardis_machine.lake.query.sql import Query
from tardis_machine.lake.tables import SILVER_BY_CASE, Table
from tardis_machine.lake.tables.bronze import EVENTS, IDENTITY, UNKNOWN, UNREADABLE
from tardis_machine.lake.tables.silver import EVENT_TABLES

EXAMPLES = 3
_COUNTED = re.compile(r" as n\b")


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: Check
    count: int
    examples: tuple[str, ...]

    @property
    def is_error(self) -> bool:
        """Say whether an error was found."""
        return self.count > 0 and self.check.severity is Severity.ERROR


def check_lake(root: str, grace_seconds: float = 0) -> list[Finding]:
    """Run every check whose table has rows.

    Args:
        root: Root of the lake.
        grace_seconds: Ignore events encoded in the last N seconds; they may still be in flight.
    """
    present = {state.name for state in list_tables(root) if state.rows}
    return [run_check(root, check) for check in checks(grace_seconds) if check.table in present]


def run_check(root: str, check: Check) -> Finding:
    """Count what a check finds, with a few examples."""
    counted = Query(root, f"select coalesce(sum(n), 0) as n from ({_numbered(check.sql)})")  # noqa: S608
    count = int(json.loads(next(counted.lines("json")))["n"])
    examples: tuple[str, ...] = ()
    if count:
        shown = Query(root, f"select * from ({check.sql}) limit {EXAMPLES}")  # noqa: S608
        examples = tuple(line.strip() for line in shown.lines("json"))
    return Finding(check, count, examples)


def _numbered(sql: str) -> str:
    return sql if _COUNTED.search(sql) else f"select 1 as n from ({sql})"  # noqa: S608


def checks(grace_seconds: float = 0) -> Iterator[Check]:
    """Yield every check."""
    for table in EVENT_TABLES:
        yield _repeated_events(table)
    for case, table in SILVER_BY_CASE.items():
        yield _missing_events(case, table, grace_seconds)
    yield from _GOLD_CHECKS
    yield from gold_differences(grace_seconds)
    for table in EVENT_TABLES:
        yield _mixed_versions(table)
    yield from _WARNINGS


def _repeated_events(table: Table) -> Check:
    keys = ", ".join(table.key)
    return Check(
        table.name,
        "repeated events",
        Severity.ERROR,
        "An event is in the table more than once.",
        f"select {keys}, count(*) - 1 as n from {table.name} group by {keys} "  # noqa: S608
        "having count(*) > 1",
    )


def _missing_events(case: str, table: Table, grace_seconds: float) -> Check:
    shared = [name for name in IDENTITY if name in table.column_names]
    same = " and ".join(f"s.{name} = b.{name}" for name in ("date", *shared))
    return Check(
        EVENTS.name,
        f"{case} events missing in Silver",
        Severity.ERROR,
        "Events are neither in their Silver table nor in quarantine. Run: lake build",
        f"select b.exchange, b.symbol, b.local_ts, b.bus, b.position from bronze.events b "  # noqa: S608
        f"where b.payload_case = '{case}' "
        f"and b.ingest_ts <= now() - interval '{grace_seconds} seconds' "
        f"and not exists (select 1 from {table.name} s where {same}) "
        "and not exists (select 1 from silver.quarantine q where q.date = b.date "
        "and q.bus = b.bus and q.stream = b.stream and q.partition = b.partition "
        "and q.position = b.position and q.envelope is not distinct from b.envelope)",
    )


def _mixed_versions(table: Table) -> Check:
    return Check(
        table.name,
        "mixed mapper versions",
        Severity.WARNING,
        "Events of one day were made by different versions of the mappers of their exchange. "
        "Publish the day again with the newest version, then run: lake rebuild",
        "select exchange, date, min(coalesce(mapper_version, 1)) as oldest, "  # noqa: S608
        f"max(coalesce(mapper_version, 1)) as newest from {table.name} group by all "
        "having oldest <> newest",
    )


_GOLD_CHECKS = (
    Check(
        "gold.coverage",
        "one preferred capture",
        Severity.ERROR,
        "A minute has no preferred capture, or several. Run: lake build",
        "select exchange, symbol, data_type, minute, count_if(is_preferred) as preferred "
        "from gold.coverage group by all having count_if(is_preferred) <> 1",
    ),
    Check(
        "gold.bars",
        "every trade counted once",
        Severity.ERROR,
        "Bars of an interval count more or fewer trades than the preferred captures of the day.",
        "select * from (select interval, date, sum(trades) as trades, any_value(expected) as "
        "expected from gold.bars join (select date, sum(events) as expected from gold.coverage "
        "where data_type = 'trade' and is_preferred group by date) using (date) "
        "group by interval, date) where trades <> expected",
    ),
    Check(
        "gold.bars",
        "prices in order",
        Severity.ERROR,
        "The open or close of a bar is outside of its low and high.",
        "select exchange, symbol, interval, open_ts, open, high, low, close from gold.bars "
        "where not (low <= least(open, close) and high >= greatest(open, close))",
    ),
)

_WARNINGS = (
    Check(
        "silver.quarantine",
        "rejected events",
        Severity.WARNING,
        "Events that failed validation; the table keeps their bytes.",
        "select reason, payload_case, count(*) as n from silver.quarantine group by all "
        "order by n desc",
    ),
    Check(
        "bronze.events",
        "undecodable events",
        Severity.WARNING,
        "Records that are not envelopes, or that need a newer version of this package.",
        f"select payload_case, bus, stream, count(*) as n from bronze.events "  # noqa: S608
        f"where payload_case in ('{UNKNOWN}', '{UNREADABLE}') group by all",
    ),
    Check(
        "silver.trades",
        "clock skew",
        Severity.WARNING,
        "The exchange time is more than a minute after the arrival time: a clock is wrong.",
        "select exchange, count(*) as n from silver.trades "
        "where event_ts > local_ts + interval 1 minute group by all",
    ),
    Check(
        "gold.quotes_1s",
        "crossed quotes",
        Severity.WARNING,
        "The best bid is above the best ask at the end of a second.",
        "select exchange, symbol, count(*) as n from gold.quotes_1s "
        "where bid_price > ask_price group by all",
    ),
    Check(
        "gold.coverage",
        "disconnects",
        Severity.WARNING,
        "Minutes in which the preferred capture lost its connection.",
        "select exchange, data_type, count(*) as n from gold.coverage "
        "where disconnects > 0 and is_preferred group by all",
    ),
    Check(
        "gold.coverage",
        "only partial captures",
        Severity.WARNING,
        "Minutes of which there are only replays that may lack what came before they began. "
        "Publish them with `tardis-machine publish`, which begins at 00:00 UTC.",
        "select exchange, data_type, min(minute) as first, max(minute) as last, count(*) as n "
        "from gold.coverage where is_preferred and starts_with(capture, 'partial:') group by all",
    ),
)
