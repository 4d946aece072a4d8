"""Rows, files, size and last change of every table, from the Delta logs."""

from dataclasses import dataclass
from datetime import UTC, datetime

from tardis_machine.lake.arrow import kernels, table_of
from tardis_machine.lake.query.delta import open_log
from tardis_machine.lake.tables import TABLES, Table


@dataclass(frozen=True)
class TableState:
    """One table, as of the latest version in its Delta log."""

    name: str
    rows: int
    files: int
    size_bytes: int
    version: int
    changed_at: datetime
    """Time at which the newest file was written."""


def list_tables(root: str) -> list[TableState]:
    """Return the state of every table that exists, in the order of declaration."""
    states = (_state(root, table) for table in TABLES.values())
    return [state for state in states if state is not None]


def _state(root: str, table: Table) -> TableState | None:
    found = open_log(root, table)
    if found is None:
        return None
    files = table_of(found.get_add_actions(flatten=True))
    changed_ms = kernels.max(files["modification_time"]).as_py()
    return TableState(
        name=table.name,
        rows=kernels.sum(files["num_records"]).as_py() or 0,
        files=len(files),
        size_bytes=kernels.sum(files["size_bytes"]).as_py() or 0,
        version=found.version(),
        changed_at=_moment(changed_ms),
    )


def _moment(value: datetime | int | None) -> datetime:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    return datetime.fromtimestamp((value or 0) / 1000, UTC)
