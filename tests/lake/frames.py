"""Small DataFrames in and plain values out, with times as seconds after noon."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tardis_machine.lake.arrow import arrow_schema
from tardis_machine.lake.tables import Table

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
SERIES = {"exchange": "bitmex", "symbol": "XBTUSD", "capture": "history", "ordinal": 0}


def at(seconds: float) -> datetime:
    """Return the time so many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def event(seconds: float, delay: float = 0.001, **columns: Any) -> dict[str, Any]:
    """Return the columns that all events have, and some more."""
    local_ts = at(seconds + delay)
    return SERIES | {"event_ts": at(seconds), "local_ts": local_ts} | columns


def frame(spark: SparkSession, table: Table, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Return rows of a table; columns that are not given are null."""
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=arrow_schema(table)))


def values(rows: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of all rows, sorted."""
    found = rows.select(*columns).toArrow().to_pylist()
    return sorted((tuple(map(_plain, row.values())) for row in found), key=str)


def _plain(value: Any) -> Any:
    return (value - NOON).total_seconds() if isinstance(value, datetime) else value
