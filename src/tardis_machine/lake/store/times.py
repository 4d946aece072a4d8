"""Spans of time, as microseconds, as conditions in SQL and as columns."""

from collections.abc import Iterable
from datetime import date
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


def spanning(spans: Iterable[Times]) -> Times:
    """Return the shortest span that contains all the others."""
    starts, ends = zip(*spans, strict=True)
    return Times(min(starts), max(ends))


def whole_days(times: Times) -> Times:
    """Return the span from the start of the first day to the end of the last."""
    first_us, last_us = (time_us - time_us % DAY_US for time_us in times)
    return Times(first_us, last_us + DAY_US - 1)


def between_days(column: str, first: date, last: date) -> str:
    """Return a condition with literal bounds on a date of the target table (`t`)."""
    return f"t.{column} BETWEEN DATE '{first}' AND DATE '{last}'"


def between_times(column: str, times: Times) -> str:
    """Return a condition with literal bounds, both included, on a time of the target table."""
    return f"t.{column} BETWEEN {_literal(times.first_us)} AND {_literal(times.last_us)}"


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
