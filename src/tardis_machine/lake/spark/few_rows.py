"""How Spark runs the queries of a batch with few rows."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tardis_machine.lake.spark.session import INTERPRETED

FEW_ROWS = {
    # Conditions hold times as literals, so every batch would be compiled anew; for few rows that
    # takes longer than everything else.
    **INTERPRETED,
    # One task for all files and one after a shuffle: a task costs more than its rows.
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.shuffle.partitions": "1",
}


@contextmanager
def for_few_rows(spark: SparkSession, *, when: bool) -> Iterator[None]:
    """Set a session to queries of few rows while the body runs."""
    before = {name: spark.conf.get(name, None) for name in FEW_ROWS} if when else {}
    for name in before:
        spark.conf.set(name, FEW_ROWS[name])
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
