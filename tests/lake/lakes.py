"""A lake for tests, filled step by step."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tardis_machine.lake.gold.build import build_writer
from tardis_machine.lake.silver.refine import SPLIT_ROWS, refine_writer
from tardis_machine.lake.store.store import Store
from tardis_machine.lake.tables import table_named
from tardis_machine.lake.tables.bronze import EVENTS
from tests.lake.events import bronze_rows

DEADLINE_SECONDS = 600


def read_available(writer: DataStreamWriter) -> None:
    """Run a query until it has read what is available; fail instead of waiting for ever."""
    query = writer.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(DEADLINE_SECONDS), f"{query.name} does not end"
    finally:
        query.stop()


class Lake:
    """A lake whose Bronze is filled by hand."""

    def __init__(self, spark: SparkSession, root: Path | str) -> None:
        self.spark = spark
        self.root = str(root)
        self._deliveries = 0

    def deliver(self, envelopes: Sequence[bytes | None]) -> None:
        """Append envelopes to Bronze and refine them."""
        self.append(envelopes)
        self.refine()

    def append(self, envelopes: Sequence[bytes | None], *, is_next: bool = True) -> None:
        """Append envelopes to Bronze, or others at the same positions of another stream."""
        self._deliveries += is_next
        rows = bronze_rows(self.spark, envelopes, partition=str(self._deliveries))
        Store(self.spark, self.root).append(rows, EVENTS)

    def refine(self, max_batch_bytes: int = 1 << 30, split_rows: int = SPLIT_ROWS) -> None:
        """Bring Bronze to Silver."""
        writer = refine_writer(Store(self.spark, self.root), max_batch_bytes, split_rows)
        read_available(writer)

    def build(self) -> None:
        """Bring Silver to Gold."""
        writer = build_writer(Store(self.spark, self.root), 1 << 30)
        read_available(writer)

    def delete(self, name: str) -> None:
        """Delete the rows of a table that are there now."""
        store = Store(self.spark, self.root)
        store.spark.sql(f"DELETE FROM delta.`{store.path(table_named(name))}`")

    def values(self, name: str, *columns: str | Column) -> list[tuple[Any, ...]]:
        """Return the rows of a table, or some columns of it, in order."""
        store, table = Store(self.spark, self.root), table_named(name)
        names = [column for column in columns if isinstance(column, str)]
        if len(names) < len(columns):
            return sorted(tuple(row) for row in store.read(table).select(*columns).collect())
        # Without a job of Spark, which takes longer than all else for a few rows.
        found = store.collect(table)
        names = found.column_names if names == ["*"] else names
        return sorted(zip(*(found[name].to_pylist() for name in names), strict=True))
