"""SQL over the tables without Spark: DuckDB reads the files that the Delta log lists.

Only tables that the statement names are opened, so the first result takes well under a second. A
query reads the latest version of each table; nothing is written.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import pyarrow as pa
from pyarrow.csv import WriteOptions, write_csv

from tardis_machine.lake.arrow import Values
from tardis_machine.lake.errors import QueryError
from tardis_machine.lake.query.delta import AsOf, Snapshot, open_table
from tardis_machine.lake.query.inventory import list_tables
from tardis_machine.lake.query.pruning import files_of, scans_of
from tardis_machine.lake.tables import Column, ColumnType, Table, table_named
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

    def __init__(self, root: str, sql: str, as_of: AsOf = None) -> None:
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
            tables = mentioned_tables(sql)
            if isinstance(as_of, int) and len(tables) > 1:
                names = ", ".join(table.name for table in tables)
                raise QueryError(
                    f"--as-of {as_of}: versions of {names} have nothing to do with each other. "
                    "Give a time, or name one table."
                )
            _register(self._connection, sql, {t: open_table(root, t, as_of) for t in tables}, root)
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


def _declaration(column: Column) -> str:
    return f'"{column.name}" {_type(column)}'


def _type(column: Column) -> str:
    return _DUCKDB_TYPES.get(column.type, column.type)


def _register(
    connection: "duckdb.DuckDBPyConnection",
    sql: str,
    tables: Mapping[Table, Snapshot | None],
    root: str,
) -> None:
    """Create a view of the needed files with the name of each table; a missing one is empty."""
    if tables and not any(tables.values()) and not list_tables(root):
        raise QueryError(
            f"There is no lake at {root!r}: none of the tables exists. "
            "Build one with `tardis-machine lake run`, or set --lake to another root."
        )
    for table, snapshot in tables.items():
        _create_empty(connection, table, snapshot)
    scans = scans_of(connection, sql)
    for table, snapshot in tables.items():
        if snapshot is not None:
            found = files_of(
                connection, snapshot.files, [s for s in scans if s.table == table.name]
            )
            _create_view(connection, table, [snapshot.locate(name) for name in found])


def _create_empty(
    connection: "duckdb.DuckDBPyConnection", table: Table, snapshot: Snapshot | None
) -> None:
    connection.execute(f"create schema if not exists {table.layer}")
    if snapshot is None:
        columns = ", ".join(map(_declaration, table.columns))
        connection.execute(f"create table {table.name} ({columns})")
        return
    # Not `empty_table`: it imports pandas, which takes longer than most queries.
    connection.register("no_rows", pa.Table.from_batches([], snapshot.schema))
    missing = _missing_columns(table, snapshot.schema.names)
    connection.execute(f"create table {table.name} as select *{missing} from no_rows")  # noqa: S608
    connection.unregister("no_rows")


def _missing_columns(table: Table, present: Sequence[str]) -> str:
    """Return what a select adds for columns that a table has only since a later version."""
    missing = [column for column in table.columns if column.name not in present]
    return "".join(f", cast(null as {_type(column)}) as {column.name}" for column in missing)


def _create_view(
    connection: "duckdb.DuckDBPyConnection", table: Table, files: Sequence[str]
) -> None:
    """Replace an empty table by a view of files, if there are any."""
    if not files:
        return
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
    rows = f"from read_parquet([{listed}], hive_partitioning = true, union_by_name = true)"
    connection.execute(f"drop table {table.name}")
    connection.execute(f"create view {table.name} as select * {rows}")
    # The view tells its columns without opening the files again.
    layer, _, name = table.name.partition(".")
    found = connection.execute(
        "select column_name from duckdb_columns() where schema_name = ? and table_name = ?",
        [layer, name],
    ).fetchall()
    if missing := _missing_columns(table, [column for (column,) in found]):
        connection.execute(f"create or replace view {table.name} as select *{missing} {rows}")
