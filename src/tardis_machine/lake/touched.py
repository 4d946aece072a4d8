"""The minutes that a batch touched: which rows to read again, and which windows to write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.store import between_times
from tardis_machine.model.time import DAY_US, MINUTE_US

MAX_SPANS = 32
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Span:
    """Touched minutes of one day, from the start of the first to the end of the last."""

    first_us: int
    last_us: int

    @property
    def days(self) -> tuple[date, date]:
        """Return the first and the last day."""
        return _day(self.first_us), _day(self.last_us)


@dataclass(frozen=True)
class Touched:
    """Touched minutes per payload case."""

    rows: DataFrame
    """Payload case, exchange, symbol and minute, each once."""
    spans: Mapping[str, Sequence[Span]]

    def has(self, *cases: str) -> bool:
        """Say whether any of the cases is touched."""
        return any(case in self.spans for case in cases)

    def of(self, *cases: str) -> DataFrame:
        """Return exchange, symbol and minute of some cases."""
        found = self.rows.where(F.col("payload_case").isin(*cases))
        return found.select("exchange", "symbol", "minute").distinct()

    def condition(self, column: str, *cases: str) -> str:
        """Return a condition on a time of table `t` that holds for all rows in touched minutes."""
        spans = [span for case in cases for span in self.spans.get(case, ())]
        if len(spans) > MAX_SPANS:
            spans = [merged(spans)]
        texts = (between_times(column, span.first_us, span.last_us) for span in spans)
        return f"({' OR '.join(texts)})"

    def span(self, *cases: str) -> Span:
        """Return the span from the first to the last touched minute of some cases."""
        return merged([span for case in cases for span in self.spans.get(case, ())])


def merged(spans: Sequence[Span]) -> Span:
    """Return the smallest span that holds all others."""
    return Span(min(span.first_us for span in spans), max(span.last_us for span in spans))


def find_spans(rows: DataFrame) -> dict[str, list[Span]]:
    """Return the spans of each payload case, one per day."""
    minute_us = F.unix_micros("minute")
    days = rows.groupBy("payload_case", F.floor(minute_us / DAY_US).alias("day"))
    found = days.agg(F.min(minute_us).alias("first"), F.max(minute_us).alias("last"))
    spans: dict[str, list[Span]] = {}
    for row in found.orderBy("payload_case", "day").collect():
        spans.setdefault(row.payload_case, []).append(Span(row.first, row.last + MINUTE_US - 1))
    return spans


def _day(time_us: int) -> date:
    return _EPOCH + timedelta(microseconds=time_us)
