"""Differences between recomputed rows and the rows in a table."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.tables import ColumnType, Table

INSERT, UPDATE, DELETE = "insert", "update", "delete"
CHANGE = "change"
TOLERANCE = 1e-12
"""Relative difference that adding the same numbers in another order can cause."""


def changed_rows(
    new: DataFrame,
    old: DataFrame,
    table: Table,
    *,
    deletes: bool,
    tolerance: float = TOLERANCE,
) -> DataFrame:
    """Return the rows to write, each with its `change`.

    Args:
        new: The rows as they should be.
        old: Rows in the table, for at least the same keys.
        table: Their table.
        deletes: Whether an old row without a new one is deleted; otherwise it stays.
        tolerance: Relative difference of numbers that is taken for none.
    """
    values = [column for column in table.columns if column.name not in table.key]
    renamed = [F.col(column.name).alias(f"old_{column.name}") for column in values]
    before = old.select(*table.key, *renamed, F.lit(1).alias("was"))
    after = new.select(*table.column_names, F.lit(1).alias("is"))
    joined = after.join(before, list(table.key), "full_outer" if deletes else "left_outer")
    is_same = F.lit(1) == 1
    for column in values:
        is_same = is_same & _is_same(column.name, column.type, tolerance)
    change = (
        F.when(F.col("was").isNull(), INSERT)
        .when(F.col("is").isNull(), DELETE)
        .when(~is_same, UPDATE)
    )
    changed = joined.withColumn(CHANGE, change).where(F.col(CHANGE).isNotNull())
    return changed.select(*table.column_names, CHANGE)


def _is_same(name: str, type_: ColumnType, tolerance: float) -> Column:
    after, before = F.col(name), F.col(f"old_{name}")
    equal = after.eqNullSafe(before)
    if type_ is not ColumnType.DOUBLE or not tolerance:
        return equal
    near = F.abs(after - before) <= F.lit(tolerance) * F.abs(before)
    return equal | F.coalesce(near, F.lit(0) == 1)
