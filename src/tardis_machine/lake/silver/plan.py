"""Plan a batch of Bronze: which files, days and times it has of each payload case."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.arrow import Values, arrow, kernels
from tardis_machine.lake.store.times import Times, between_days, minute_of
from tardis_machine.lake.tables import SILVER_BY_CASE, Table
from tardis_machine.lake.tables.bronze import IDENTITY
from tardis_machine.lake.tables.silver import TOUCHED_MINUTES


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
        """Return the Silver table of the case."""
        return SILVER_BY_CASE[self.case]

    @property
    def days(self) -> str:
        """Return a condition on the table (`t`) that every row of the batch meets."""
        return between_days("date", self.first_date, self.last_date)


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


def has_repetitions(headers: DataFrame) -> bool:
    """Say whether two rows have the same identity (or, rarely, the same hash of it).

    Collecting eight bytes per event in the driver costs a tenth of shuffling all events.
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
    """Return the plan of each payload case."""
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
