"""Rows that are used several times."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame


@contextmanager
def persisted(rows: DataFrame) -> Iterator[DataFrame]:
    """Cache rows while the body runs."""
    rows.persist()
    try:
        yield rows
    finally:
        rows.unpersist()
