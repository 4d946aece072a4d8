"""Every table of the lake, declared once: columns with meaning and unit, key, partitioning.

Spark and Arrow schemas, the Protobuf package `lakehouse.silver.v1` and the documents are derived
from these declarations.
"""

from collections.abc import Mapping

from tardis_machine.lake.tables import bronze, gold, instruments, silver
from tardis_machine.lake.tables.columns import Column, ColumnType, Table, by_name
from tardis_machine.model.errors import UnknownNameError

__all__ = ["SILVER_BY_CASE", "TABLES", "Column", "ColumnType", "Table", "table_named"]

TABLES: Mapping[str, Table] = by_name(
    (
        bronze.EVENTS,
        *silver.EVENT_TABLES,
        silver.QUARANTINE,
        silver.TOUCHED_MINUTES,
        instruments.INSTRUMENTS,
        *gold.GOLD_TABLES,
    )
)

SILVER_BY_CASE: Mapping[str, Table] = {
    case: table for table in silver.EVENT_TABLES for case in table.cases
}


def table_named(name: str) -> Table:
    """Return the table with this name; the error for an unknown name suggests the nearest."""
    if name not in TABLES:
        raise UnknownNameError("table", name, TABLES)
    return TABLES[name]
