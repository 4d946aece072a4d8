"""Arrow schemas of the tables, and pyarrow for columns of any type.

The published type stubs declare every kernel per array class, which no function over columns of any
type can satisfy. So columns and kernels are untyped, and only here.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from tardis_machine.lake.tables import Column, ColumnType, Table

Values: TypeAlias = Any
"""A pyarrow Array of any type."""

kernels: Any = pyarrow.compute
"""`pyarrow.compute`."""

arrow: Any = pa
"""`pyarrow`, for functions that make arrays of a type given at run time."""

_ARROW: Mapping[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT: pa.int32(),
    ColumnType.BIGINT: pa.int64(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.DATE: pa.date32(),
    ColumnType.TIMESTAMP: pa.timestamp("us", "UTC"),
    ColumnType.BINARY: pa.binary(),
    ColumnType.DOUBLES: pa.list_(pa.float64()),
    ColumnType.STRINGS: pa.list_(pa.string()),
}


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table."""
    return pa.schema([arrow_field(column) for column in table.columns])


def arrow_field(column: Column) -> "pa.Field[Any]":
    """Return one column as an Arrow field."""
    return pa.field(column.name, _ARROW[column.type])


def table_of(found: Any) -> Values:
    """Return a table of another Arrow library as one of pyarrow.

    `pyarrow.table` would import pandas to find out that it is no DataFrame, for half a second.
    """
    return arrow.RecordBatchReader.from_stream(found).read_all()
