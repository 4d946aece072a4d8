"""The Protobuf package `lakehouse.silver.v1`, from the declarations of the Silver tables."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from tardis_machine.lake.tables import TABLES, Column, ColumnType, Table

SILVER = Path("schemas/proto/lakehouse/silver/v1/rows.proto")

HEADER = """\
// The Silver layer: one message per table, one field per column.
//
// Written by `make proto` from the declarations of the tables; never edited. The number of a field
// is the position of its column, so columns are only ever added at the end. An absent list is an
// empty one here.
syntax = "proto3";

package lakehouse.silver.v1;

import "google/protobuf/timestamp.proto";
"""
COMMENT_WIDTH = 95

TYPES = {
    ColumnType.STRING: "string",
    ColumnType.INT: "int32",
    ColumnType.BIGINT: "int64",
    ColumnType.DOUBLE: "double",
    ColumnType.BOOLEAN: "bool",
    ColumnType.DATE: "int32",
    ColumnType.TIMESTAMP: "google.protobuf.Timestamp",
    ColumnType.BINARY: "bytes",
    ColumnType.DOUBLES: "repeated double",
    ColumnType.STRINGS: "repeated string",
}
UNITS = {ColumnType.DATE: "days since 1970-01-01"}
HAVE_PRESENCE = (ColumnType.TIMESTAMP, ColumnType.DOUBLES, ColumnType.STRINGS)
"""Types that take no `optional`: a message tells by itself, a list cannot."""


def silver_proto() -> str:
    """Return the text of the schema."""
    tables = (table for table in TABLES.values() if table.layer == "silver")
    return "\n".join((HEADER, *map(_message, tables)))


def message_name(table: Table) -> str:
    """Return the name of one row: `silver.option_summaries` has rows `OptionSummary`."""
    noun = table.name.partition(".")[2]
    singular = f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")
    return "".join(word.capitalize() for word in singular.split("_"))


def _message(table: Table) -> str:
    fields = (line for field in enumerate(table.columns, 1) for line in _field(*field))
    comment = f"{table.name}: {table.meaning[0].lower()}{table.meaning[1:]}"
    return "\n".join((*_comment(comment), f"message {message_name(table)} {{", *fields, "}", ""))


def _field(number: int, column: Column) -> Iterator[str]:
    unit = UNITS.get(column.type, column.unit)
    meaning = column.meaning.removesuffix(".")
    yield from (f"  {line}" for line in _comment(f"{meaning} ({unit})." if unit else f"{meaning}."))
    may_be_absent = not column.is_required and column.type not in HAVE_PRESENCE
    label = "optional " if may_be_absent else ""
    yield f"  {label}{TYPES[column.type]} {column.name} = {number};"


def _comment(text: str) -> list[str]:
    return [f"// {line}" for line in textwrap.wrap(text, COMMENT_WIDTH)]
