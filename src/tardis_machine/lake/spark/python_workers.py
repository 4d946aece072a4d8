"""Start Spark's Python processes before they are needed.

Spark starts one process to make a data source, one to plan its reads and one to fork workers from,
each when it first needs it, and each imports for most of a second.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType


def start_workers(spark: SparkSession) -> None:
    """Read an empty data source in a thread, for which Spark starts all of them."""
    threading.Thread(target=_read_nothing, args=(spark,), daemon=True).start()


def _read_nothing(spark: SparkSession) -> None:
    # Spark may be gone already; otherwise the query that needs them says why they do not start.
    with suppress(Exception):
        spark.dataSource.register(EmptySource)
        spark.read.format(EmptySource.name()).load().collect()


class EmptySource(DataSource):
    """A data source without rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tardis-machine-empty"

    def schema(self) -> str:
        """Return the columns."""
        return "nothing int"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads no rows."""
        return EmptyReader()


class EmptyReader(DataSourceReader):
    """Reads no rows, in one task."""

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        """Read nothing."""
        return iter(())
