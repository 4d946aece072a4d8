"""What the log of a table tells about its files, read without Spark: a few milliseconds."""

from deltalake import DeltaTable

from tardis_machine.lake.arrow import Values, arrow, kernels
from tardis_machine.model.time import SECOND_US

# Statistics of times are cut to milliseconds.
_CUT_US = SECOND_US // 1000


def times_in_files(path: str, column: str, first_us: int, last_us: int) -> tuple[int, int] | None:
    """Return the part of a span in which a table may have rows, None when it has none there.

    Args:
        path: A table in a local folder.
        column: One of its times.
        first_us: Begin of the span.
        last_us: Its end, included.
    """
    files = arrow.table(DeltaTable(path).get_add_actions(flatten=True))
    if f"min.{column}" not in files.column_names:
        return (first_us, last_us) if len(files) else None
    lows, highs = _micros(files[f"min.{column}"]), _micros(files[f"max.{column}"])
    highs = kernels.add(highs, _CUT_US)
    # A file without statistics may hold anything.
    lows, highs = lows.fill_null(first_us), highs.fill_null(last_us)
    is_near = kernels.and_(
        kernels.less_equal(lows, last_us), kernels.greater_equal(highs, first_us)
    )
    if not kernels.any(is_near).as_py():
        return None
    low = kernels.min(lows.filter(is_near)).as_py()
    high = kernels.max(highs.filter(is_near)).as_py()
    return max(low, first_us), min(high, last_us)


def _micros(times: Values) -> Values:
    return times.cast(arrow.timestamp("us", "UTC")).cast(arrow.int64())
