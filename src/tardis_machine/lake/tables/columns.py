"""Columns and tables, as declarations."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class ColumnType(StrEnum):
    """A column type, named as in SQL."""

    STRING = "STRING"
    INT = "INT"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    BINARY = "BINARY"
    DOUBLES = "ARRAY<DOUBLE>"
    STRINGS = "ARRAY<STRING>"


@dataclass(frozen=True)
class Column:
    """One column: its type, what it means and in which unit."""

    name: str
    type: ColumnType
    meaning: str
    unit: str = ""
    is_required: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table: its columns, key and partitioning."""

    name: str
    """Layer and plural noun: `silver.trades`."""
    meaning: str
    columns: tuple[Column, ...]
    """Append only: the position is the field number in `lakehouse.silver.v1`."""
    key: tuple[str, ...]
    """Columns that identify a row."""
    partition_by: tuple[str, ...] = ("date",)
    cluster_by: tuple[str, ...] = ()
    """Sort order of rows in files after compaction."""
    cases: tuple[str, ...] = ()
    """Payload cases of its events."""
    stats: tuple[str, ...] | None = None
    """Columns with file statistics; None: those of `cluster_by`, and the event time."""

    def __post_init__(self) -> None:
        missing = {*self.key, *self.partition_by, *self.cluster_by} - {*self.column_names}
        if missing:
            raise ValueError(f"{self.name} declares no column {', '.join(sorted(missing))}")

    @property
    def layer(self) -> str:
        """Return the layer: bronze, silver or gold."""
        return self.name.partition(".")[0]

    @property
    def path(self) -> str:
        """Return the folder below the root of the lake."""
        return self.name.replace(".", "/")

    @property
    def column_names(self) -> tuple[str, ...]:
        """Return the names of all columns in order."""
        return tuple(column.name for column in self.columns)

    @property
    def stats_by(self) -> tuple[str, ...]:
        """Return the columns with file statistics; none: all columns."""
        if self.stats is not None:
            return self.stats
        if not self.cluster_by:
            return ()
        return (*self.cluster_by, *({"event_ts"} & {*self.column_names}))

    @property
    def is_computed(self) -> bool:
        """Say whether its records have the requested data type as their name."""
        return "name" in self.column_names


def text(name: str, meaning: str) -> Column:
    """Declare a nullable string."""
    return Column(name, ColumnType.STRING, meaning)


def number(name: str, meaning: str, unit: str = "") -> Column:
    """Declare a nullable IEEE double."""
    return Column(name, ColumnType.DOUBLE, meaning, unit)


def count(name: str, meaning: str, unit: str = "") -> Column:
    """Declare a nullable 64-bit integer."""
    return Column(name, ColumnType.BIGINT, meaning, unit)


def time(name: str, meaning: str) -> Column:
    """Declare a nullable UTC time."""
    return Column(name, ColumnType.TIMESTAMP, meaning, "µs, UTC")


def required(*columns: Column) -> tuple[Column, ...]:
    """Return the columns as not nullable."""
    return tuple(
        Column(column.name, column.type, column.meaning, column.unit, is_required=True)
        for column in columns
    )


def by_name(tables: Iterable[Table]) -> dict[str, Table]:
    """Return the tables under their names."""
    return {table.name: table for table in tables}
