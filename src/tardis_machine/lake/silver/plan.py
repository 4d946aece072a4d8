"""Plan a batch of Bronze: which files, days and times it has of each payload case."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.arrow import Values, arrow, kernels
from tardis_machine.lake.roots import path_of
from tardis_machine.lake.store.few_rows import MAX_ROWS, can_express
from tardis_machine.lake.store.times import MAX_SPANS, Times, joined, minute_of
from tardis_machine.lake.tables import SILVER_BY_CASE, Table
from tardis_machine.lake.tables.bronze import IDENTITY
from tardis_machine.lake.tables.silver import TOUCHED_MINUTES


@dataclass(frozen=True)
class CasePlan:
    """What a batch holds of one payload case."""

    case: str
    rows: int
    files: tuple[str, ...]
    dates: tuple[date, ...]
    spans: tuple[Times, ...]
    """From the first to the last local time of each day; none when no row has one."""

    @property
    def table(self) -> Table:
        """Return the Silver table of the case."""
        return SILVER_BY_CASE[self.case]

    @property
    def is_few(self) -> bool:
        """Say whether the driver may write the rows itself."""
        return self.rows <= MAX_ROWS and can_express(self.spans)

    @property
    def days(self) -> str:
        """Return a condition on the table (`t`) that every row of the batch meets."""
        if len(self.dates) > MAX_SPANS:
            return f"t.date BETWEEN DATE '{self.dates[0]}' AND DATE '{self.dates[-1]}'"
        listed = ", ".join(f"DATE '{day}'" for day in self.dates)
        return f"t.date IN ({listed})"


def grouped_by_minute(headers: DataFrame) -> DataFrame:
    """Return file, minute, count and time range of the rows: enough to plan, in few rows."""
    minute = minute_of(F.coalesce("event_ts", "local_ts")).alias("minute")
    local_us = F.unix_micros("local_ts")
    return headers.groupBy("file", "exchange", "symbol", minute).agg(
        # Bronze is partitioned by day and payload case, so a file has one of each.
        F.first("payload_case").alias("payload_case"),
        F.first("date").alias("date"),
        F.count(F.lit(1)).alias("rows"),
        F.min(local_us).alias("first_us"),
        F.max(local_us).alias("last_us"),
    )


def has_repetitions(events: DataFrame) -> bool:
    """Say whether two events have the same identity (or, rarely, the same hash of it).

    Collecting eight bytes per event in the driver costs a tenth of shuffling all events.
    """
    known = events.where(F.col("payload_case").isin(*SILVER_BY_CASE))
    hashes = known.select(F.xxhash64(*IDENTITY).alias("hash")).toArrow()["hash"]
    return int(kernels.count_distinct(hashes).as_py()) < len(hashes)


def touched_minutes(groups: Values) -> Values:
    """Return rows of `silver.touched_minutes`."""
    is_known = kernels.is_in(groups["payload_case"], arrow.array(list(SILVER_BY_CASE)))
    known = groups.filter(kernels.and_(is_known, groups["minute"].is_valid()))
    dated = known.drop_columns("date").append_column("date", known["minute"].cast(arrow.date32()))
    return dated.group_by(list(TOUCHED_MINUTES.column_names)).aggregate([])


def plan_cases(groups: Values) -> list[CasePlan]:
    """Return the plan of each payload case."""
    found = groups.group_by(["payload_case", "date"]).aggregate(
        [("rows", "sum"), ("file", "distinct"), ("first_us", "min"), ("last_us", "max")]
    )
    by_case: dict[str, list[dict[str, Any]]] = {}
    for row in found.sort_by([("payload_case", "ascending"), ("date", "ascending")]).to_pylist():
        by_case.setdefault(row["payload_case"], []).append(row)
    return [_plan(case, days) for case, days in by_case.items()]


def _plan(case: str, days: list[dict[str, Any]]) -> CasePlan:
    times = (
        Times(day["first_us_min"], day["last_us_max"])
        for day in days
        if day["first_us_min"] is not None
    )
    return CasePlan(
        case=case,
        rows=sum(day["rows_sum"] for day in days),
        files=tuple(sorted(path_of(file) for day in days for file in day["file_distinct"])),
        dates=tuple(day["date"] for day in days),
        spans=tuple(joined(times)),
    )
