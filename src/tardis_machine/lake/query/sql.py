"""SQL over the tables without Spark: DuckDB reads the files that the Delta log names.

Only the tables that a statement mentions are looked up, so the first answer comes in well under a
second. Tables are read as they are now; nothing is written.
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
"""Column types that DuckDB calls something else."""

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
        with self._refusals():
            for table in mentioned_tables(sql):
                _register(self._connection, table, root)
            self._answer = self._connection.sql(sql)
        if self._answer is None:
            raise QueryError("The query gives no rows. Use a select statement.")

    def text(self) -> str:
        """Return the answer as a table for a terminal."""
        with self._refusals():
            return str(self._answer)

    def lines(self, format_: Literal["csv", "json"]) -> Iterator[str]:
        """Yield the answer as CSV with a header, or as one JSON object per row."""
        is_json = format_ == "json"
        with self._refusals():
            answer = self._answer if is_json else self._answer.project(_flat(self._answer))
            if not is_json:
                yield _csv_header(answer.columns)
            for batch in answer.to_arrow_reader(BATCH_ROWS):
                yield from _json_lines(batch) if is_json else [_csv_text(batch)]

    def write_parquet(self, path: Path) -> None:
        """Write the answer to a file."""
        with self._refusals():
            self._answer.write_parquet(str(path), compression="zstd")

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Turn what DuckDB says of a statement, at once or while it runs, into an error of ours."""
        try:
            yield
        except UnknownNameError as error:
            raise QueryError(str(error)) from error
        except self._error as error:
            raise QueryError(f"DuckDB refuses this query: {error}") from error


def _flat(answer: "duckdb.DuckDBPyRelation") -> str:
    """Return a projection in which lists and the like are text, as CSV needs them."""
    return ", ".join(
        f"cast({name} as varchar) as {name}" if type_.id in _NESTED else name
        for name, type_ in zip(map(_quoted, answer.columns), answer.types, strict=True)
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
    """Return the files of a table as its log names them now; None when it was never written."""
    try:
        return DeltaTable(f"{root.rstrip('/')}/{table.path}").file_uris()
    except TableNotFoundError:
        return None


def _declaration(column: Column) -> str:
    return f'"{column.name}" {_DUCKDB_TYPES.get(column.type, column.type)}'


def _register(connection: "duckdb.DuckDBPyConnection", table: Table, root: str) -> None:
    """Make a table answer to its name; one without rows has its columns and no rows."""
    layer, _, name = table.name.partition(".")
    connection.execute(f"create schema if not exists {layer}")
    files = table_files(root, table)
    if files is None and not any(table_files(root, other) for other in TABLES.values()):
        raise QueryError(
            f"There is no lake at {root!r}: none of its tables was found. "
            "Build one with `tardis-machine lake run`, or name another with --lake."
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
