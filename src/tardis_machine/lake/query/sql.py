"""SQL over the tables without Spark: DuckDB reads the files that the Delta log lists.

Only tables that the statement names are opened, so the first result takes well under a second. A
query reads the latest version of each table; nothing is written.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow.csv import WriteOptions, write_csv

from tardis_machine.lake.arrow import Values
from tardis_machine.lake.errors import QueryError
from tardis_machine.lake.tables import TABLES, Column, ColumnType, Table, table_named
from tardis_machine.model.errors import MissingExtraError, UnknownNameError

if TYPE_CHECKING:
    import duckdb

BATCH_ROWS = 10_000

_DUCKDB_TYPES = {
    ColumnType.STRING: "VARCHAR",
    ColumnType.BINARY: "BLOB",
    ColumnType.TIMESTAMP: "TIMESTAMPTZ",
    ColumnType.DOUBLES: "DOUBLE[]",
    ColumnType.STRINGS: "VARCHAR[]",
}
"""Column types with another name in DuckDB."""

_NESTED = frozenset({"list", "array", "struct", "map", "union"})

_MENTIONED = re.compile(r'"?\b(bronze|silver|gold)"?\."?(\w+)"?', re.IGNORECASE)


class Query:
    """One statement over the tables of a lake."""

    def __init__(self, root: str, sql: str) -> None:
        try:
            import duckdb
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                "Queries need 'duckdb'. Run: pip install 'tardis-machine[lake]'"
            ) from error
        self._error = duckdb.Error
        self._connection = duckdb.connect()
        self._connection.execute("set timezone = 'UTC'")
        with self._errors_of_duckdb():
            for table in mentioned_tables(sql):
                _register(self._connection, table, root)
            self._result = self._connection.sql(sql)
        if self._result is None:
            raise QueryError("The statement returns no rows. Use a select statement.")

    def text(self) -> str:
        """Return the result as a table for a terminal."""
        with self._errors_of_duckdb():
            return str(self._result)

    def lines(self, format_: Literal["csv", "json"]) -> Iterator[str]:
        """Yield the result as CSV with a header, or as one JSON object per row."""
        is_json = format_ == "json"
        with self._errors_of_duckdb():
            result = self._result if is_json else self._result.project(_flat(self._result))
            if not is_json:
                yield _csv_header(result.columns)
            for batch in result.to_arrow_reader(BATCH_ROWS):
                yield from _json_lines(batch) if is_json else [_csv_text(batch)]

    def write_parquet(self, path: Path) -> None:
        """Write the result to a Parquet file."""
        with self._errors_of_duckdb():
            self._result.write_parquet(str(path), compression="zstd")

    @contextmanager
    def _errors_of_duckdb(self) -> Iterator[None]:
        """Raise errors of DuckDB, at once or while the query runs, as QueryError."""
        try:
            yield
        except UnknownNameError as error:
            raise QueryError(str(error)) from error
        except self._error as error:
            raise QueryError(f"DuckDB rejected the query: {error}") from error


def _flat(result: "duckdb.DuckDBPyRelation") -> str:
    """Return a projection with nested columns as text, as CSV needs them."""
    return ", ".join(
        f"cast({name} as varchar) as {name}" if type_.id in _NESTED else name
        for name, type_ in zip(map(_quoted, result.columns), result.types, strict=True)
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _csv_header(names: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(names)
    return text.getvalue()


def _csv_text(batch: Values) -> str:
    sink = pa.BufferOutputStream()
    write_csv(batch, sink, WriteOptions(include_header=False))
    return sink.getvalue().to_pybytes().decode()


def _json_lines(batch: Values) -> Iterator[str]:
    encoder = msgspec.json.Encoder(decimal_format="number")
    for row in batch.to_pylist():
        yield encoder.encode(row).decode() + "\n"


def mentioned_tables(sql: str) -> list[Table]:
    """Return the tables of the lake that a statement names, each once."""
    names = dict.fromkeys(f"{layer}.{name}".lower() for layer, name in _MENTIONED.findall(sql))
    return [table_named(name) for name in names]


def table_files(root: str, table: Table) -> list[str] | None:
    """Return the files in the latest version of a table; None when the table does not exist."""
    try:
        return DeltaTable(f"{root.rstrip('/')}/{table.path}").file_uris()
    except TableNotFoundError:
        return None


def _declaration(column: Column) -> str:
    return f'"{column.name}" {_DUCKDB_TYPES.get(column.type, column.type)}'


def _register(connection: "duckdb.DuckDBPyConnection", table: Table, root: str) -> None:
    """Create a view with the name of a table; a missing table is created empty."""
    layer, _, name = table.name.partition(".")
    connection.execute(f"create schema if not exists {layer}")
    files = table_files(root, table)
    if files is None and not any(table_files(root, other) for other in TABLES.values()):
        raise QueryError(
            f"There is no lake at {root!r}: none of the tables exists. "
            "Build one with `tardis-machine lake run`, or set --lake to another root."
        )
    if not files:
        columns = ", ".join(map(_declaration, table.columns))
        connection.execute(f"create table {layer}.{name} ({columns})")
        return
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
    connection.execute(
        f"create view {layer}.{name} as select * "  # noqa: S608 - names are declared ones
        f"from read_parquet([{listed}], hive_partitioning = true, union_by_name = true)"
    )
