"""File statistics from the Delta log of a table, read without Spark in a few milliseconds."""

from collections.abc import Sequence
from urllib.parse import unquote

from deltalake import DeltaTable

from tardis_machine.lake.arrow import Values, arrow, kernels, table_of
from tardis_machine.lake.store.times import Times
from tardis_machine.model.time import SECOND_US

# Delta truncates the statistics of times to milliseconds.
_TRUNCATED_US = SECOND_US // 1000
_EARLIEST_US, _LATEST_US = -(1 << 62), 1 << 62


def known_times(
    path: str, column: str, wanted: Sequence[Times], **partitions: Sequence[str]
) -> list[Times]:
    """Return the parts of spans in which a table may have rows.

    Args:
        path: A table in a local folder.
        column: One of its time columns.
        wanted: The spans to look at.
        partitions: Partition values to look at, by column (default: all).
    """
    files = table_of(DeltaTable(path).get_add_actions(flatten=True))
    for name, values in partitions.items():
        files = files.filter(kernels.is_in(files[f"partition.{name}"], arrow.array(values)))
    lows, highs = bounds_of(files, column)
    parts = (_part(lows, highs, times) for times in wanted)
    return [part for part in parts if part is not None]


def _part(lows: Values, highs: Values, times: Times) -> Times | None:
    overlaps = _overlap(lows, highs, times)
    if not kernels.any(overlaps).as_py():
        return None
    low = kernels.min(lows.filter(overlaps)).as_py()
    high = kernels.max(highs.filter(overlaps)).as_py()
    return Times(max(low, times.first_us), min(high, times.last_us))


def rows_near(path: str, column: str, wanted: Sequence[Times]) -> int:
    """Return how many rows the files have that may have rows in any of the wanted spans."""
    files = table_of(DeltaTable(path).get_add_actions(flatten=True))
    overlaps = _overlap_any(*bounds_of(files, column), wanted)
    return int(kernels.sum(files["num_records"].filter(overlaps)).as_py() or 0)


def files_with(path: str, column: str, wanted: Sequence[Times]) -> list[str]:
    """Return the files that may have rows in any of the wanted spans."""
    files = table_of(DeltaTable(path).get_add_actions(flatten=True))
    overlaps = _overlap_any(*bounds_of(files, column), wanted)
    return [f"{path}/{unquote(name)}" for name in files["path"].filter(overlaps).to_pylist()]


def bounds_of(files: Values, column: str) -> tuple[Values, Values]:
    """Return the earliest and the latest time of each file."""
    if f"min.{column}" not in files.column_names:
        unknown = arrow.nulls(len(files), arrow.int64())
        lows = highs = unknown
    else:
        lows, highs = _micros(files[f"min.{column}"]), _micros(files[f"max.{column}"])
    # A file without statistics may hold anything.
    lows = lows.fill_null(_EARLIEST_US)
    highs = kernels.add(highs, _TRUNCATED_US).fill_null(_LATEST_US)
    return lows, highs


def _overlap_any(lows: Values, highs: Values, wanted: Sequence[Times]) -> Values:
    overlaps = _overlap(lows, highs, wanted[0])
    for times in wanted[1:]:
        overlaps = kernels.or_(overlaps, _overlap(lows, highs, times))
    return overlaps


def _overlap(lows: Values, highs: Values, times: Times) -> Values:
    return kernels.and_(
        kernels.less_equal(lows, times.last_us), kernels.greater_equal(highs, times.first_us)
    )


def _micros(times: Values) -> Values:
    return times.cast(arrow.timestamp("us", "UTC")).cast(arrow.int64())
