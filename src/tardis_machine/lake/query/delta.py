"""Delta tables of a lake as they are, or were, read from their logs."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from tardis_machine.lake.arrow import Values, arrow, table_of
from tardis_machine.lake.errors import QueryError
from tardis_machine.lake.roots import absolute_root, is_local
from tardis_machine.lake.tables import Table
from tardis_machine.model.errors import SettingsError

AsOf: TypeAlias = int | datetime | None
"""A version of a table, or the time at which it was the latest one; None: now."""


def read_as_of(text: str | None) -> AsOf:
    """Read a version or a time; a time without an offset is UTC."""
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise SettingsError(
            f"--as-of {text}: neither the number of a version nor a time such as 2024-03-01T12:00Z."
        ) from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Snapshot:
    """One version of a table."""

    path: str
    schema: pa.Schema
    files: Values
    """Its add actions, flattened: path, rows, partition values and statistics of each file."""

    def locate(self, name: str) -> str:
        """Return where a file is, given its path in the log, which is escaped."""
        return f"{self.path}/{unquote(name) if is_local(self.path) else name}"


def open_log(root: str, table: Table) -> DeltaTable | None:
    """Return the log of a table; None when there is none.

    Raises:
        QueryError: the root cannot be reached.
    """
    try:
        return DeltaTable(f"{absolute_root(root)}/{table.path}")
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise QueryError(f"{table.name} of the lake {root} cannot be opened: {reason}") from error


def open_table(root: str, table: Table, as_of: AsOf = None) -> Snapshot | None:
    """Return a table; None when it does not exist, or did not exist at that time."""
    found = open_log(root, table)
    if found is None:
        return None
    if as_of is not None:
        first = datetime.fromtimestamp(found.history()[-1]["timestamp"] / 1000, tz=UTC)
        if isinstance(as_of, datetime) and as_of < first:
            return None
        try:
            found.load_as_version(as_of)
        except DeltaError as error:
            raise QueryError(
                f"{table.name} has no version {as_of}; the latest is {found.version()}."
            ) from error
    files = table_of(found.get_add_actions(flatten=True))
    path = f"{absolute_root(root)}/{table.path}"
    return Snapshot(path, arrow.schema(found.schema().to_arrow()), files)
