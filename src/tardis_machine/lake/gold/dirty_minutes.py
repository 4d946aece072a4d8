"""The minutes that a batch touched: which rows to read again, and which windows to write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.arrow import Values, arrow, kernels
from tardis_machine.lake.store.log_stats import Times
from tardis_machine.lake.tables.silver import DISCONNECT
from tardis_machine.model.time import DAY_US, MINUTE_US

MAX_SPANS = 32


@dataclass(frozen=True)
class Touched:
    """Touched minutes per payload case, in the memory of the driver: few, and needed often."""

    minutes: Values
    """An Arrow table of payload case, exchange, symbol and minute; a null symbol means all."""
    spans: Mapping[str, Sequence[Times]]
    """From the first to the last touched minute of each day, per payload case."""

    def has(self, *cases: str) -> bool:
        """Say whether any of the cases is touched."""
        return any(case in self.spans for case in cases)

    def of(self, spark: SparkSession, *cases: str) -> DataFrame:
        """Return exchange, symbol and minute of some cases, each once."""
        is_meant = kernels.is_in(self.minutes["payload_case"], arrow.array(cases))
        groups = self.minutes.filter(is_meant).group_by(["exchange", "symbol", "minute"])
        return spark.createDataFrame(groups.aggregate([]))

    def times(self, *cases: str) -> list[Times]:
        """Return when the touched minutes of some cases are: per day, or from first to last."""
        found = [times for case in cases for times in self.spans.get(case, ())]
        return found if len(found) <= MAX_SPANS else [merged(found)]

    def span(self, *cases: str) -> Times:
        """Return the time from the first to the last touched minute of some cases."""
        return merged(self.times(*cases))


def collect_touched(minutes: DataFrame) -> Touched:
    """Collect rows of `silver.touched_minutes`."""
    # A disconnect concerns every symbol of its exchange.
    symbol = F.when(F.col("payload_case") != DISCONNECT, F.col("symbol")).alias("symbol")
    found = minutes.select("payload_case", "exchange", symbol, "minute").distinct().toArrow()
    return Touched(found, find_spans(found))


def merged(spans: Sequence[Times]) -> Times:
    """Return the shortest time that holds all others."""
    return Times(min(span.first_us for span in spans), max(span.last_us for span in spans))


def whole_days(times: Times) -> Times:
    """Return the time from the start of the first to the end of the last day."""
    first_us, last_us = (time_us - time_us % DAY_US for time_us in times)
    return Times(first_us, last_us + DAY_US - 1)


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
