"""Work of one batch side by side: a small write is mostly waiting for Spark's driver."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

THREADS = 4

_T = TypeVar("_T")


def side_by_side(spark: SparkSession, calls: Iterable[Callable[[], _T]]) -> list[_T]:
    """Run calls in threads and return their results; raise the first failure when all have ended.

    Their Spark jobs belong to the query of the caller, and end when it is stopped.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        inherit = inheritable_thread_target(spark)
        running = [pool.submit(inherit(call)) for call in calls]
    return [each.result() for each in running]
