"""File statistics from the Delta log of a table, read without Spark in a few milliseconds."""

from collections.abc import Sequence

from deltalake import DeltaTable

from tardis_machine.lake.arrow import Values, arrow, kernels
from tardis_machine.lake.store.times import Times
from tardis_machine.model.time import SECOND_US

# Delta truncates the statistics of times to milliseconds.
_TRUNCATED_US = SECOND_US // 1000


def known_times(path: str, column: str, times: Times, **partitions: Sequence[str]) -> Times | None:
    """Return the part of a span in which a table may have rows; None when it has none there.

    Args:
        path: A table in a local folder.
        column: One of its time columns.
        times: The span to look at.
        partitions: Partition values to look at, by column (default: all).
    """
    files = arrow.table(DeltaTable(path).get_add_actions(flatten=True))
    for name, values in partitions.items():
        files = files.filter(kernels.is_in(files[f"partition.{name}"], arrow.array(values)))
    lows, highs = _bounds(files, column, times)
    overlaps = _overlap(lows, highs, times)
    if not kernels.any(overlaps).as_py():
        return None
    low = kernels.min(lows.filter(overlaps)).as_py()
    high = kernels.max(highs.filter(overlaps)).as_py()
    return Times(max(low, times.first_us), min(high, times.last_us))


def files_with(path: str, column: str, wanted: Sequence[Times]) -> list[str]:
    """Return the files that may have rows in any of the wanted spans."""
    whole = Times(min(times.first_us for times in wanted), max(times.last_us for times in wanted))
    files = arrow.table(DeltaTable(path).get_add_actions(flatten=True))
    lows, highs = _bounds(files, column, whole)
    overlaps = _overlap(lows, highs, wanted[0])
    for times in wanted[1:]:
        overlaps = kernels.or_(overlaps, _overlap(lows, highs, times))
    return [f"{path}/{name}" for name in files["path"].filter(overlaps).to_pylist()]


def _bounds(files: Values, column: str, times: Times) -> tuple[Values, Values]:
    """Return the earliest and the latest time of each file."""
    if f"min.{column}" not in files.column_names:
        unknown = arrow.nulls(len(files), arrow.int64())
        lows = highs = unknown
    else:
        lows, highs = _micros(files[f"min.{column}"]), _micros(files[f"max.{column}"])
    # A file without statistics may hold anything.
    lows = lows.fill_null(times.first_us)
    highs = kernels.add(highs, _TRUNCATED_US).fill_null(times.last_us)
    return lows, highs


def _overlap(lows: Values, highs: Values, times: Times) -> Values:
    return kernels.and_(
        kernels.less_equal(lows, times.last_us), kernels.greater_equal(highs, times.first_us)
    )


def _micros(times: Values) -> Values:
    return times.cast(arrow.timestamp("us", "UTC")).cast(arrow.int64())
