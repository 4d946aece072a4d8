"""Whether Spark compiles expressions or interprets them."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tardis_machine.lake.spark.session import INTERPRETED


@contextmanager
def interpreted(spark: SparkSession, *, when: bool) -> Iterator[None]:
    """Interpret expressions in a session while the body runs.

    Conditions hold times as literals, so every batch would be compiled anew; for few rows that
    takes longer than everything else.
    """
    before = {name: spark.conf.get(name) for name in INTERPRETED} if when else {}
    for name in before:
        spark.conf.set(name, INTERPRETED[name])
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
