"""Differences between recomputed rows and those in a table, for rows that the driver holds.

The same as `changes`, without Spark: it plans a join for longer than these rows take.
"""

from tardis_machine.lake.arrow import Values, arrow, arrow_schema, kernels
from tardis_machine.lake.store.changes import CHANGE, DELETE, INSERT, TOLERANCE, UPDATE
from tardis_machine.lake.tables import ColumnType, Table

_OLD = "_old"


def changed_few(new: Values, old: Values, table: Table, *, deletes: bool) -> Values:
    """Return the rows to write, each with its `change`; arguments as in `changed_rows`."""
    after, before = _numbered(new, table, "is"), _numbered(old, table, "was")
    how = "full outer" if deletes else "left outer"
    joined = after.join(
        before, list(table.key), join_type=how, right_suffix=_OLD, use_threads=False
    )
    is_new, is_gone = (kernels.is_null(joined[name]) for name in ("was", "is"))
    change = kernels.case_when(
        kernels.make_struct(is_new, is_gone, kernels.invert(_same(joined, table))),
        INSERT,
        DELETE,
        UPDATE,
    )
    changed = joined.select(table.column_names).append_column(CHANGE, change)
    return changed.filter(kernels.is_valid(change))


def _numbered(rows: Values, table: Table, name: str) -> Values:
    """Return the columns of a table, and one that is null where a join finds no row."""
    schema = arrow_schema(table)
    rows = rows.select(schema.names).cast(schema)
    return rows.append_column(name, arrow.array(range(len(rows)), arrow.int64()))


def _same(joined: Values, table: Table) -> Values:
    """Say which rows have the same values before and after."""
    same = arrow.repeat(arrow.scalar(True), len(joined))
    for column in table.columns:
        if column.name not in table.key:
            after, before = joined[column.name], joined[f"{column.name}{_OLD}"]
            same = kernels.and_(same, _equal(after, before, column.type))
    return same


def _equal(after: Values, before: Values, type_: ColumnType) -> Values:
    equal = kernels.equal(after, before)
    if type_ is ColumnType.DOUBLE:
        allowed = kernels.multiply(kernels.abs(before), TOLERANCE)
        near = kernels.less_equal(kernels.abs(kernels.subtract(after, before)), allowed)
        both_nan = kernels.and_(kernels.is_nan(after), kernels.is_nan(before))
        equal = kernels.or_(kernels.or_(equal, near), both_nan)
    both_null = kernels.and_(kernels.is_null(after), kernels.is_null(before))
    return kernels.or_(kernels.fill_null(equal, False), both_null)
