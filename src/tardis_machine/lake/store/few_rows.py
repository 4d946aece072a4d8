"""Read and write rows of local tables that the driver holds, without Spark.

A commit of Spark takes a second however few its rows are, a merge several; here it takes a few
hundredths.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from importlib import import_module
from operator import and_, or_
from typing import Any

from deltalake import DeltaTable, WriterProperties, write_deltalake
from deltalake.table import TableMerger

from tardis_machine.lake.arrow import Values, arrow, arrow_schema
from tardis_machine.lake.store.changes import CHANGE, DELETE
from tardis_machine.lake.store.log_stats import files_with
from tardis_machine.lake.store.rewriting import rewrite_few
from tardis_machine.lake.store.times import Times
from tardis_machine.lake.tables import Table

MAX_ROWS = 50_000
# As Spark writes them.
_WRITER = WriterProperties(compression="SNAPPY")
# The writer holds literal times as nanoseconds: years 1678 to 2261.
_EARLIEST_US, _LATEST_US = -9_214_646_400_000_000, 9_214_646_400_000_000


def can_express(spans: Iterable[Times]) -> bool:
    """Say whether a condition of a merge may have these times."""
    return all(first > _EARLIEST_US and last < _LATEST_US for first, last in spans)


def read_few(
    path: str, table: Table, column: str, wanted: Sequence[Times], **partitions: Sequence[str]
) -> Values:
    """Return the rows of a table whose time is in any of the wanted spans.

    Args:
        path: A table in a local folder.
        table: What it is.
        column: One of its time columns.
        wanted: The spans.
        partitions: Partition values to read, by column (default: all).
    """
    # Imports pandas where it may.
    dataset: Any = import_module("pyarrow.dataset")
    schema = arrow_schema(table)
    files = dataset.dataset(
        files_with(path, column, wanted),
        schema=schema,
        format="parquet",
        partitioning=dataset.partitioning(
            arrow.schema([schema.field(name) for name in table.partition_by]), flavor="hive"
        ),
        partition_base_dir=path,
    )
    time, type_ = dataset.field(column), schema.field(column).type
    spans = [
        (time >= arrow.scalar(first, type_)) & (time <= arrow.scalar(last, type_))
        for first, last in wanted
    ]
    named = [dataset.field(name).isin(values) for name, values in partitions.items()]
    return files.to_table(filter=reduce(and_, named, reduce(or_, spans)))


def append_few(path: str, table: Table, rows: Values) -> None:
    """Append rows of an Arrow table."""
    schema = arrow_schema(table)
    data = rows.select(schema.names).cast(schema)
    # A table of a newer version has columns that these rows lack.
    write_deltalake(path, data, mode="append", schema_mode="merge", writer_properties=_WRITER)


def insert_few(path: str, table: Table, rows: Values, conditions: Sequence[str]) -> None:
    """Insert the rows of an Arrow table for which no row in the table meets the conditions."""
    _merger(path, rows, conditions).when_not_matched_insert(_updates(table.column_names)).execute()


def replace_few(path: str, table: Table, changes: Values, conditions: Sequence[str]) -> None:
    """Apply changes of an Arrow table to the rows that meet the conditions."""
    if rewrite_few(path, table, changes, MAX_ROWS):
        return
    values = [name for name in table.column_names if name not in table.key]
    (
        _merger(path, changes, conditions)
        .when_matched_delete(f"s.{CHANGE} = '{DELETE}'")
        .when_matched_update(_updates(values))
        .when_not_matched_insert(_updates(table.column_names))
        .execute()
    )


def counts_of(changes: Values) -> dict[str, int]:
    """Return how many rows of each change there are."""
    return dict(Counter(changes[CHANGE].to_pylist()))


def _merger(path: str, rows: Values, conditions: Sequence[str]) -> TableMerger:
    return DeltaTable(path).merge(
        rows,
        " AND ".join(conditions),
        source_alias="s",
        target_alias="t",
        writer_properties=_WRITER,
    )


def _updates(names: Iterable[str]) -> dict[str, str]:
    return {name: f"s.{name}" for name in names}
