"""Spans of time, as microseconds, as conditions in SQL and as columns."""

from collections.abc import Iterable
from datetime import date
from heapq import nlargest
from itertools import pairwise
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.model.time import DAY_US, MINUTE_US, SECOND_US, civil_from_days, us_text


class Times(NamedTuple):
    """The first and the last microsecond of a span of time."""

    first_us: int
    last_us: int

    @property
    def dates(self) -> tuple[date, date]:
        """Return the UTC dates of the first and the last microsecond."""
        return _date_of(self.first_us), _date_of(self.last_us)


def _date_of(time_us: int) -> date:
    return date(*civil_from_days(time_us // DAY_US))


MAX_SPANS = 32
"""Spans in one condition; more than this are joined where they are closest."""


def joined(spans: Iterable[Times], limit: int = MAX_SPANS) -> list[Times]:
    """Return the same spans in order, those that touch as one, and no more than a limit."""
    found: list[Times] = []
    for span in sorted(spans):
        if found and span.first_us <= found[-1].last_us + 1:
            found[-1] = Times(found[-1].first_us, max(found[-1].last_us, span.last_us))
        else:
            found.append(span)
    gaps = (
        (after.first_us - before.last_us, place)
        for place, (before, after) in enumerate(pairwise(found), start=1)
    )
    cuts = sorted(place for _, place in nlargest(limit - 1, gaps))
    parts = pairwise([0, *cuts, len(found)])
    return [Times(found[start].first_us, found[end - 1].last_us) for start, end in parts if end]


def whole_days(times: Times) -> Times:
    """Return the span from the start of the first day to the end of the last."""
    first_us, last_us = (time_us - time_us % DAY_US for time_us in times)
    return Times(first_us, last_us + DAY_US - 1)


def on_days(column: str, spans: Iterable[Times]) -> str:
    """Return a condition with literal bounds on a date of the target table (`t`)."""
    days = (span.dates for span in spans)
    texts = (f"t.{column} BETWEEN DATE '{first}' AND DATE '{last}'" for first, last in days)
    return f"({' OR '.join(texts)})"


def in_spans(column: str, spans: Iterable[Times]) -> str:
    """Return a condition with literal bounds, both included, on a time of the target table."""
    ends = ((_literal(first_us), _literal(last_us)) for first_us, last_us in spans)
    texts = (f"t.{column} BETWEEN {first} AND {last}" for first, last in ends)
    return f"({' OR '.join(texts)})"


def _literal(time_us: int) -> str:
    """Return a time as SQL, the same in every session time zone."""
    return f"TIMESTAMP '{us_text(time_us)}'"


def minute_of(column: str | Column) -> Column:
    """Return the start of the minute of a time."""
    return _start_of(column, MINUTE_US)


def second_of(column: str | Column) -> Column:
    """Return the start of the second of a time."""
    return _start_of(column, SECOND_US)


def _start_of(column: str | Column, length_us: int) -> Column:
    # `date_trunc` converts time zones and costs ten times as much.
    time_us = F.unix_micros(column)
    return F.timestamp_micros(time_us - F.pmod(time_us, F.lit(length_us)))
