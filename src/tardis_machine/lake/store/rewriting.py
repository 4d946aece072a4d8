"""Change rows of local tables by writing the files anew that hold them.

For few rows a merge takes three times as long, most of it to plan and start a query.
"""

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from tardis_machine.lake.arrow import Values, arrow, arrow_schema, kernels, table_of
from tardis_machine.lake.store.changes import CHANGE, DELETE, INSERT
from tardis_machine.lake.store.log_stats import bounds_of
from tardis_machine.lake.tables import ColumnType, Table
from tardis_machine.model.time import us_text

# Its type stubs know fewer options than it has.
_parquet: Any = pyarrow.parquet
_FILE, _ROW = "__filename", "row"
_AS_IT_WAS_READ = CommitProperties(
    # Other writers take a commit that only appends for one that read nothing.
    custom_metadata={"isBlindAppend": False},
    # A second try would be a commit on a version that was not read.
    max_commit_retries=0,
)


@dataclass(frozen=True)
class _Place:
    """What a file of a table has in its log."""

    path: str
    size: int
    partition: dict[str, str | None]

    def removed(self) -> RemoveAction:
        now_ms = time.time_ns() // 1_000_000
        return RemoveAction(self.path, True, now_ms, self.size, self.partition)


def rewrite_few(path: str, table: Table, changes: Values, max_rows: int) -> bool:
    """Apply changes as one commit; say whether that was done, otherwise they must be merged.

    Args:
        path: A table in a local folder.
        table: What it is.
        changes: Rows, each with its `change`.
        max_rows: Rows that the files to read may have.
    """
    delta = DeltaTable(path)
    if not _is_known(delta, table):
        return False
    files = _files_near(delta, table, changes.filter(kernels.not_equal(changes[CHANGE], INSERT)))
    if (kernels.sum(files["num_records"]).as_py() or 0) > max_rows or _has_escapes(files):
        return False
    kept, replaced = _untouched(path, table, files["path"].to_pylist(), changes)
    schema = arrow_schema(table)
    made = changes.filter(kernels.not_equal(changes[CHANGE], DELETE))
    rows = arrow.concat_tables([kept, made.select(schema.names).cast(schema)])
    removed = [place.removed() for place in _places(files, table) if place.path in replaced]
    return _commit(delta, Path(path), table, rows, removed)


def _is_known(delta: DeltaTable, table: Table) -> bool:
    """Say whether rows are found by their keys, and no column of a newer version would be lost."""
    needed = {column.name for column in table.columns if column.is_required}
    names = {field.name for field in delta.schema().fields}
    return {*table.partition_by} <= {*table.key} <= needed and names == {*table.column_names}


def _files_near(delta: DeltaTable, table: Table, gone: Values) -> Values:
    """Return the files that may have the old rows: of the same partitions, around their times."""
    files = table_of(delta.get_add_actions(flatten=True))
    times = [
        column.name
        for column in table.columns
        if column.name in table.key and column.type is ColumnType.TIMESTAMP
    ]
    wanted = _spans_by_partition(gone, table, times)
    is_near = arrow.repeat(arrow.scalar(False), len(files))
    for row in wanted.to_pylist():
        is_near = kernels.or_(is_near, _is_near(files, row, table, times))
    return files.filter(is_near)


def _spans_by_partition(gone: Values, table: Table, times: Sequence[str]) -> Values:
    """Return the partitions of rows, each with its earliest and latest times in microseconds."""
    columns = {name: gone[name] for name in table.partition_by}
    columns |= {name: gone[name].cast(arrow.int64()) for name in times}
    ends = [(name, end) for name in times for end in ("min", "max")]
    return arrow.table(columns).group_by(list(table.partition_by)).aggregate(ends)


def _is_near(files: Values, row: dict[str, Any], table: Table, times: Sequence[str]) -> Values:
    """Say which files are of one partition and around its times."""
    is_near = arrow.repeat(arrow.scalar(True), len(files))
    for name in table.partition_by:
        values = files[f"partition.{name}"].cast(arrow.string())
        is_near = kernels.and_(is_near, kernels.equal(values, str(row[name])))
    for name in times:
        lows, highs = bounds_of(files, name)
        is_near = kernels.and_(is_near, kernels.less_equal(lows, row[f"{name}_max"]))
        is_near = kernels.and_(is_near, kernels.greater_equal(highs, row[f"{name}_min"]))
    return is_near.fill_null(False)


def _has_escapes(files: Values) -> bool:
    """Say whether the log writes a path otherwise than the file system does."""
    return any("%" in name for name in files["path"].to_pylist())


def _untouched(
    path: str, table: Table, names: Sequence[str], changes: Values
) -> tuple[Values, set[str]]:
    """Return the rows to keep of files that have changed rows, and the names of these files."""
    dataset: Any = import_module("pyarrow.dataset")
    schema = arrow_schema(table)
    partitions = arrow.schema([schema.field(name) for name in table.partition_by])
    files = dataset.dataset(
        [f"{path}/{name}" for name in names],
        schema=schema,
        format="parquet",
        partitioning=dataset.partitioning(partitions, flavor="hive"),
        partition_base_dir=path,
    )
    rows = files.to_table(columns=[*schema.names, _FILE], use_threads=False)
    changed = _places_of_keys(rows, changes, table)
    touched = kernels.unique(rows[_FILE].take(changed))
    numbers = arrow.array(range(len(rows)), arrow.int64())
    stays = kernels.and_not(
        kernels.is_in(rows[_FILE], touched), kernels.is_in(numbers, changed.combine_chunks())
    )
    found = {name.removeprefix(f"{path}/") for name in touched.to_pylist()}
    return rows.filter(stays).select(schema.names), found


def _places_of_keys(rows: Values, changes: Values, table: Table) -> Values:
    """Return the numbers of the rows that have the key of a change."""
    key = list(table.key)
    numbered = rows.select(key).append_column(_ROW, arrow.array(range(len(rows)), arrow.int64()))
    keys = changes.select(key).cast(numbered.select(key).schema)
    return numbered.join(keys, key, join_type="left semi", use_threads=False)[_ROW]


def _places(files: Values, table: Table) -> Iterator[_Place]:
    columns = [files[f"partition.{name}"].cast(arrow.string()) for name in table.partition_by]
    partitions = zip(*(column.to_pylist() for column in columns), strict=True)
    values = list(partitions) if columns else [()] * len(files)
    paths, sizes = files["path"].to_pylist(), files["size_bytes"].to_pylist()
    for name, size, partition in zip(paths, sizes, values, strict=True):
        yield _Place(name, size, dict(zip(table.partition_by, partition, strict=True)))


def _commit(
    delta: DeltaTable, folder: Path, table: Table, rows: Values, removed: list[RemoveAction]
) -> bool:
    """Write rows to new files, and commit them in the place of others.

    False when somebody else has changed the table meanwhile: a compaction may have removed the same
    files, and the commit would bring its rows twice.
    """
    written: list[AddAction] = []
    try:
        for partition, part in _parts(rows, table):
            written.append(_write(folder, table, partition, part))
        delta.create_write_transaction(
            [*written, *removed],
            "append",
            delta.schema(),
            list(table.partition_by),
            commit_properties=_AS_IT_WAS_READ,
        )
    except Exception as error:
        # Nobody else knows these files, and a full disk stays full.
        for file in written:
            (folder / file.path).unlink(missing_ok=True)
        if isinstance(error, CommitFailedError):
            return False
        raise
    return True


def _parts(rows: Values, table: Table) -> Iterator[tuple[dict[str, str | None], Values]]:
    """Yield the rows of each partition without its columns."""
    names = list(table.partition_by)
    stored = rows.drop_columns(names)
    texts = [rows[name].cast(arrow.string()) for name in names]
    if not names:
        yield {}, stored
        return
    places = arrow.table(texts, names).group_by(names).aggregate([])
    for place in places.select(names).to_pylist():
        is_here = arrow.repeat(arrow.scalar(True), len(rows))
        for values, name in zip(texts, names, strict=True):
            is_here = kernels.and_(is_here, kernels.equal(values, place[name]))
        yield place, stored.filter(is_here)


def _write(folder: Path, table: Table, partition: dict[str, str | None], rows: Values) -> AddAction:
    """Write rows to a new file."""
    places = [f"{name}={value}" for name, value in partition.items()]
    name = "/".join([*places, f"part-{uuid.uuid4()}.snappy.parquet"])
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    _parquet.write_table(rows, file, compression="snappy", store_schema=False)
    stat = file.stat()
    return AddAction(
        path=name,
        size=stat.st_size,
        partition_values=partition,
        modification_time=int(stat.st_mtime * 1000),
        data_change=True,
        stats=_stats(rows, table),
    )


def _stats(rows: Values, table: Table) -> str:
    """Return the statistics of a file as its Delta log has them."""
    ends = {name: _ends(rows[name]) for name in table.stats_by}
    return json.dumps(
        {
            "numRecords": len(rows),
            "minValues": {name: low for name, (low, _) in ends.items() if low is not None},
            "maxValues": {name: high for name, (_, high) in ends.items() if high is not None},
            "nullCount": {name: rows[name].null_count for name in ends},
        }
    )


def _ends(values: Values) -> tuple[str | None, str | None]:
    """Return the smallest and the largest of some texts or times, as text."""
    is_time = arrow.types.is_timestamp(values.type)
    ends = kernels.min_max(values.cast(arrow.int64()) if is_time else values).as_py()
    low, high = ends["min"], ends["max"]
    return (us_text(low), us_text(high)) if is_time and low is not None else (low, high)
