"""Which files of a table a statement can have rows in, by the statistics of the Delta log.

DuckDB plans the statement over empty tables and tells the filters of each scan. A filter is applied
to the lowest and highest values of a file. What is not understood skips no file.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tardis_machine.lake.arrow import Values

if TYPE_CHECKING:
    import duckdb

# These would change the plan because the tables are empty, or scan a table a second time.
_DISABLED = "statistics_propagation,empty_result_pullup,late_materialization"
_LITERAL = r"(?:'(?:[^']|'')*'(?:::[A-Z][A-Z ]*)?|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_ATOM = re.compile(
    rf"\((?P<name>\w+) (?:(?P<sign>=|<|>|<=|>=) (?P<value>{_LITERAL})"
    rf"|IN \((?P<values>{_LITERAL}(?:, {_LITERAL})*)\))\)"
)
_OPTIONAL = "optional: "
_CONNECTED = re.compile(r"(?:[()\s]|\bAND\b|\bOR\b|@\d+)+")
_LIMITS = ("LIMIT", "STREAMING_LIMIT")


@dataclass(frozen=True)
class Scan:
    """How a statement reads one table."""

    table: str
    filters: tuple[str, ...]
    limit: int | None = None
    """Rows that are enough, whichever they are."""


def scans_of(connection: "duckdb.DuckDBPyConnection", sql: str) -> list[Scan]:
    """Return how a statement reads its tables, which exist and are empty.

    Nothing is returned for a statement that cannot be explained: running it gives the reason.
    """
    import duckdb

    connection.execute(f"set disabled_optimizers = '{_DISABLED}'")
    try:
        rows = connection.execute(f"explain (format json) {sql}").fetchall()
        plans = [node for _, text in rows for node in json.loads(text)]
    except duckdb.Error:
        return []
    finally:
        connection.execute("reset disabled_optimizers")
    return [scan for plan in plans for scan in _scans(plan, None, is_plain=True)]


def _scans(node: dict[str, Any], limit: int | None, *, is_plain: bool) -> Iterator[Scan]:
    info = node.get("extra_info", {})
    if node["name"] in _LIMITS and is_plain and limit is None:
        limit = _number(info.get("Limit")) if "Offset" not in info else None
    elif "Table" in info:
        filters = info.get("Filters", ())
        texts = (filters,) if isinstance(filters, str) else tuple(filters)
        table = info["Table"].partition(".")[2]
        yield Scan(table, texts, limit if is_plain and not texts else None)
    elif node["name"] != "PROJECTION":
        is_plain = False
    for child in node.get("children", ()):
        yield from _scans(child, limit, is_plain=is_plain)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def files_of(
    connection: "duckdb.DuckDBPyConnection", files: Values, scans: Sequence[Scan]
) -> list[str]:
    """Return the paths of the files that any of some scans of a table needs.

    Args:
        connection: To evaluate conditions with.
        files: The add actions of the table, flattened.
        scans: How a statement reads the table; none: it is not known.
    """
    if not scans:
        return list(files["path"].to_pylist())
    if len(scans) == 1 and scans[0].limit is not None:
        return _enough(files, scans[0].limit)
    wanted = " or ".join(f"({_condition(scan, files.column_names)})" for scan in scans)
    connection.register("files_of_table", files)
    try:
        found = connection.execute(
            f"select path from files_of_table where coalesce({wanted}, true)"  # noqa: S608
        )
        return [path for (path,) in found.fetchall()]
    finally:
        connection.unregister("files_of_table")


def _enough(files: Values, limit: int) -> list[str]:
    """Return as many files as have so many rows."""
    paths: list[str] = []
    rows = 0
    for path, count in zip(
        files["path"].to_pylist(), files["num_records"].to_pylist(), strict=True
    ):
        if rows >= limit and paths:
            break
        paths.append(path)
        rows += count or 0
    return paths


def _condition(scan: Scan, columns: Sequence[str]) -> str:
    parts = [text for each in scan.filters if (text := file_condition(each, columns))]
    return " and ".join(f"coalesce({part}, true)" for part in parts) or "true"


def file_condition(filter_: str, columns: Sequence[str]) -> str | None:
    """Return a condition on files for a filter of rows; None when there is none.

    Args:
        filter_: A filter as DuckDB shows it, comparisons joined by AND and OR.
        columns: Columns of the flattened add actions.
    """
    atoms: list[str] = []

    def note(found: re.Match[str]) -> str:
        atoms.append(_range_condition(found, columns))
        return f"@{len(atoms) - 1}"

    text = _ATOM.sub(note, filter_.replace(_OPTIONAL, ""))
    if _CONNECTED.fullmatch(text) is None:
        return None
    return re.sub(r"@(\d+)", lambda found: f"coalesce({atoms[int(found[1])]}, true)", text)


def _range_condition(found: re.Match[str], columns: Sequence[str]) -> str:
    """Return a condition on the lowest and highest value of a column, or `true`."""
    name = found["name"]
    if f"partition.{name}" in columns:
        low = high = f'"partition.{name}"'
    elif f"min.{name}" in columns and f"max.{name}" in columns:
        # The log has times in milliseconds.
        is_time = name.endswith("_ts") or name in ("minute", "second")
        low = f'"min.{name}"'
        high = f'"max.{name}" + interval 1 millisecond' if is_time else f'"max.{name}"'
    else:
        return "true"
    if found["values"]:
        values = re.findall(_LITERAL, found["values"])
        return "(" + " or ".join(f"({low} <= {one} and {high} >= {one})" for one in values) + ")"
    sign, value = found["sign"], found["value"]
    if sign == "=":
        return f"({low} <= {value} and {high} >= {value})"
    return f"({high if sign.startswith('>') else low} {sign} {value})"
