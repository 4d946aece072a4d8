"""Dirty minutes: those in which Silver changed, so that Gold must be computed again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.arrow import Values, arrow, kernels
from tardis_machine.lake.store.few_rows import MAX_ROWS
from tardis_machine.lake.store.times import Times, joined
from tardis_machine.lake.tables.silver import DISCONNECT
from tardis_machine.model.time import MINUTE_US

ROWS_PER_MINUTE = 70
"""About what one minute of a series has in a Gold table, at most: 60 seconds, and longer bars."""


@dataclass(frozen=True)
class DirtyMinutes:
    """Dirty minutes per payload case, in the memory of the driver: few, and used often."""

    minutes: Values
    """An Arrow table of payload case, exchange, symbol and minute; a null symbol means all."""
    spans: Mapping[str, Sequence[Times]]
    """From the first to the last dirty minute of each day, per payload case."""

    def has(self, *cases: str) -> bool:
        """Say whether any of the payload cases has a dirty minute."""
        return any(case in self.spans for case in cases)

    @property
    def is_few(self) -> bool:
        """Say whether the driver may hold the Gold rows of these minutes."""
        return len(self.minutes) * ROWS_PER_MINUTE <= MAX_ROWS

    def of(self, spark: SparkSession, *cases: str) -> DataFrame:
        """Return exchange, symbol and minute of some payload cases, each once."""
        is_wanted = kernels.is_in(self.minutes["payload_case"], arrow.array(cases))
        groups = self.minutes.filter(is_wanted).group_by(["exchange", "symbol", "minute"])
        return spark.createDataFrame(groups.aggregate([]))

    def times(self, *cases: str) -> list[Times]:
        """Return the spans that contain the dirty minutes of some payload cases."""
        return joined(times for case in cases for times in self.spans.get(case, ()))


def collect_dirty(minutes: DataFrame) -> DirtyMinutes:
    """Collect rows of `silver.touched_minutes`."""
    # A disconnect affects every symbol of its exchange.
    symbol = F.when(F.col("payload_case") != DISCONNECT, F.col("symbol")).alias("symbol")
    found = minutes.select("payload_case", "exchange", symbol, "minute").distinct().toArrow()
    return DirtyMinutes(found, find_spans(found))


def find_spans(minutes: Values) -> dict[str, list[Times]]:
    """Return the spans of each payload case, one per day."""
    times = minutes["minute"]
    rows = arrow.table(
        {
            "case": minutes["payload_case"],
            "day": times.cast(arrow.date32()),
            "us": times.cast(arrow.int64()),
        }
    )
    days = rows.group_by(["case", "day"]).aggregate([("us", "min"), ("us", "max")])
    spans: dict[str, list[Times]] = {}
    for row in days.sort_by([("case", "ascending"), ("day", "ascending")]).to_pylist():
        span = Times(row["us_min"], row["us_max"] + MINUTE_US - 1)
        spans.setdefault(row["case"], []).append(span)
    return spans
