"""Tables that are created without Spark, and logs that are looked through."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tardis_machine.lake.arrow import arrow_schema
from tardis_machine.lake.store.logs import (
    MAX_VERSIONS,
    create_empty,
    has_only_appends,
    may_start_at_first,
)
from tardis_machine.lake.tables import TABLES, Table
from tardis_machine.lake.tables.silver import TOUCHED_MINUTES


@pytest.mark.parametrize("table", TABLES.values(), ids=str)
def test_every_table_can_be_created_empty(tmp_path: Path, table: Table) -> None:
    path = str(tmp_path / "a table")
    for _ in range(2):
        create_empty(path, table, {"delta.enableDeletionVectors": "false"})
    made = DeltaTable(path)
    assert made.version() == 0
    assert [field.name for field in made.schema().fields] == list(table.column_names)
    assert made.metadata().partition_columns == list(table.partition_by)
    protocol = made.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)


def test_log_of_appends_is_told_from_others(tmp_path: Path) -> None:
    path = str(tmp_path)
    create_empty(path, TOUCHED_MINUTES, {})
    schema = arrow_schema(TOUCHED_MINUTES)
    rows = pa.Table.from_pylist([{"exchange": "bitmex"}], schema=schema)
    write_deltalake(path, rows, mode="append")
    assert has_only_appends(path)
    DeltaTable(path).delete()
    assert not has_only_appends(path)


def test_batch_planned_from_a_snapshot_is_read_from_it_again(tmp_path: Path) -> None:
    path, checkpoint = str(tmp_path / "table"), tmp_path / "query"
    create_empty(path, TOUCHED_MINUTES, {})
    assert may_start_at_first(path, str(checkpoint))
    planned = checkpoint / "offsets" / "0"
    planned.parent.mkdir(parents=True)
    for is_from_snapshot in ("true", "false"):
        offset = f'{{"reservoirVersion":1,"index":0,"isStartingVersion":{is_from_snapshot}}}'
        planned.write_text(f"v1\n{{}}\n{offset}")
        assert may_start_at_first(path, str(checkpoint)) is (is_from_snapshot == "false")


def test_long_log_is_not_looked_through(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version in range(MAX_VERSIONS + 1):
        (log / f"{version:020}.json").write_text("{}")
    assert not has_only_appends(str(tmp_path))
    (log / f"{MAX_VERSIONS:020}.json").unlink()
    assert has_only_appends(str(tmp_path))
    # The oldest entries were cleaned up.
    (log / f"{0:020}.json").unlink()
    assert not has_only_appends(str(tmp_path))
