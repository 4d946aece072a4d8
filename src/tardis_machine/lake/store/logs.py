"""Delta logs of local tables, without Spark: creating a table, and what its first versions did."""

from collections.abc import Mapping
from pathlib import Path

from deltalake import DeltaTable, Schema

from tardis_machine.lake.spark.schemas import spark_schema
from tardis_machine.lake.tables import Table

MAX_VERSIONS = 10
"""Versions that are looked through; a log has its first checkpoint then."""
_FROM_SNAPSHOT = '"isStartingVersion":true'
"""Marks an offset of Delta's stream that is a place in a snapshot."""


def create_empty(path: str, table: Table, properties: Mapping[str, str]) -> None:
    """Create a table without rows unless it exists; Spark would need seconds for its first."""
    DeltaTable.create(
        path,
        Schema.from_json(spark_schema(table).json()),
        mode="ignore",
        partition_by=list(table.partition_by),
        configuration=dict(properties),
    )


def may_start_at_first(path: str, checkpoint: str) -> bool:
    """Say whether a stream of a table may begin with its first version instead of a snapshot.

    A first batch that was planned from a snapshot is read from it again after a kill: its end is
    a place in the order of that snapshot.
    """
    planned = Path(checkpoint, "offsets", "0")
    if planned.exists() and _FROM_SNAPSHOT in planned.read_text(encoding="utf-8"):
        return False
    return has_only_appends(path)


def has_only_appends(path: str) -> bool:
    """Say whether a table is young and all files that it ever had are still part of it."""
    entries = sorted(Path(path, "_delta_log").glob("*.json"))
    if len(entries) > MAX_VERSIONS or [int(entry.stem) for entry in entries] != [
        *range(len(entries))
    ]:
        return False
    return not any('"remove":' in entry.read_text(encoding="utf-8") for entry in entries)
