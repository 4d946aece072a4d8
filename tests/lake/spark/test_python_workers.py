"""Python processes that Spark starts for tasks."""

import time
from collections.abc import Iterator

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tardis_machine.lake.spark.python_workers import start_workers

pytestmark = pytest.mark.spark

DEADLINE_SECONDS = 300
DAEMON = "tardis_machine.lake.daemon"


def commands() -> list[list[str]]:
    """Return the command lines of all processes below this one."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            found.append(process.cmdline())
        except psutil.NoSuchProcess:
            continue
    return found


def test_workers_start_before_a_query_needs_them(spark: SparkSession) -> None:
    start_workers(spark)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not any(DAEMON in command for command in commands()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_workers_have_the_modules_of_the_lake_and_no_pandas(spark: SparkSession) -> None:
    def modules(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        list(batches)
        pa.array([1])
        names = ("pandas", "tardis_machine.lake.bronze.files", "tardis_machine.lake.silver.rows")
        yield pa.RecordBatch.from_pydict({"name": [name for name in names if name in sys.modules]})

    found = spark.range(0, 1, 1, 1).mapInArrow(modules, "name string").collect()
    assert [row["name"] for row in found] == [
        "tardis_machine.lake.bronze.files",
        "tardis_machine.lake.silver.rows",
    ]
