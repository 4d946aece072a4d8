"""Files of `bronze.events`, written by the tasks that read a bus.

The rows of a task stay in its Python process: the driver gets one row per file. Only for lakes in
a folder; elsewhere Spark writes them.
"""

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tardis_machine.lake.arrow import Values, arrow, kernels
from tardis_machine.lake.bronze.rows import UNIQUE, bronze_batch
from tardis_machine.lake.buses.rows import RowForm
from tardis_machine.lake.errors import LakeError
from tardis_machine.lake.tables.bronze import EVENTS
from tardis_machine.model.time import us_text

MAX_FILE_BYTES = 64 << 20
"""Size of the rows, before compression, at which a task begins another file."""
# Its type stubs know fewer options than it has.
_parquet: Any = pyarrow.parquet
_PARTITION = EVENTS.partition_by
_STORED = [name for name in EVENTS.column_names if name not in _PARTITION]
_DICTIONARIES = [
    column.name
    for column in EVENTS.columns
    if column.type == "STRING" and column.name in _STORED and column.name not in UNIQUE
]

FILE_SCHEMA = StructType(
    [
        StructField("path", StringType()),
        StructField("size", LongType()),
        StructField("date", StringType()),
        StructField("payload_case", StringType()),
        StructField("rows", LongType()),
        StructField("stats", StringType()),
    ]
)
_ARROW = pa.schema(
    [
        pa.field(each.name, pa.string() if each.dataType == StringType() else pa.int64())
        for each in FILE_SCHEMA
    ]
)


def file_form(path: str) -> RowForm:
    """Return the form in which tasks write rows to a table and deliver files."""

    def write(records: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Only tasks need this module; the processes that plan for them get this function, too.
        from tardis_machine.lake.bronze.files import write_files

        return write_files(path, records)

    return RowForm(FILE_SCHEMA, write)


def write_files(
    path: str, records: Iterator[pa.RecordBatch], max_file_bytes: int = MAX_FILE_BYTES
) -> Iterator[pa.RecordBatch]:
    """Write records of a bus to new files below the folder of the table; yield what they hold."""
    writer = _Writer(Path(path), max_file_bytes)
    try:
        for batch in records:
            files = writer.add(bronze_batch(batch))
            if files:
                yield pa.RecordBatch.from_pylist(files, schema=_ARROW)
        if files := writer.finish():
            yield pa.RecordBatch.from_pylist(files, schema=_ARROW)
    except Exception:
        # Nobody commits them: the next attempt writes others, and a full disk stays full.
        writer.discard()
        raise


@dataclass
class _Pending:
    parts: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0


class _Writer:
    """Collects the rows of each day and payload case."""

    def __init__(self, folder: Path, max_file_bytes: int) -> None:
        self._folder = folder
        self._max_file_bytes = max_file_bytes
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._written: list[Path] = []

    def add(self, rows: pa.RecordBatch) -> list[dict[str, object]]:
        """Take rows, and return the files that became full."""
        full = []
        for place, part in _parts(rows):
            pending = self._pending.setdefault(place, _Pending())
            pending.parts.append(part)
            pending.size += part.nbytes
            if pending.size >= self._max_file_bytes:
                full.append(self._write(place))
        return full

    def finish(self) -> list[dict[str, object]]:
        """Write what is left."""
        return [self._write(place) for place in list(self._pending)]

    def discard(self) -> None:
        """Delete the files that were written."""
        for file in self._written:
            file.unlink(missing_ok=True)

    def _write(self, place: tuple[str, str]) -> dict[str, object]:
        rows = pa.Table.from_batches(self._pending.pop(place).parts)
        day, case = place
        name = f"date={day}/payload_case={case}/part-{uuid.uuid4()}.snappy.parquet"
        return {
            "path": name,
            "size": self._write_file(name, rows),
            "date": day,
            "payload_case": case,
            "rows": len(rows),
            "stats": _stats(rows),
        }

    def _write_file(self, name: str, rows: Values) -> int:
        """Write rows to a new file and return its size."""
        file = self._folder / name
        self._written.append(file)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            _parquet.write_table(
                rows, file, compression="snappy", use_dictionary=_DICTIONARIES, store_schema=False
            )
            return file.stat().st_size
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise LakeError(
                f"{file} cannot be written: {reason}. Nothing of the batch was committed; the next "
                "start reads it again."
            ) from error


def _parts(rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """Yield the rows of each day and payload case, without these columns."""
    days, cases = (rows.column(name) for name in _PARTITION)
    stored = rows.select(_STORED)
    places = pa.table({"day": days, "case": cases}).group_by(["day", "case"]).aggregate([])
    for day, case in zip(places["day"].to_pylist(), places["case"].to_pylist(), strict=True):
        part = stored
        if len(places) > 1:
            is_here = kernels.and_(
                kernels.equal(days, arrow.scalar(day)), kernels.equal(cases, case)
            )
            part = stored.filter(is_here)
        yield (str(day), str(case)), part


def _stats(rows: Values) -> str:
    """Return the statistics of a file as its Delta log has them."""
    (name,) = EVENTS.stats_by
    ends = kernels.min_max(rows[name].cast(arrow.int64())).as_py()
    texts = {end: us_text(time_us) for end, time_us in ends.items() if time_us is not None}
    return json.dumps(
        {
            "numRecords": len(rows),
            "minValues": {name: texts["min"]} if texts else {},
            "maxValues": {name: texts["max"]} if texts else {},
            "nullCount": {name: rows[name].null_count},
        }
    )
