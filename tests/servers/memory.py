"""How much memory this process needed for a while."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def peak_memory_mb() -> Iterator[Callable[[], float]]:
    """Watch allocations while the body runs; what it yields then says how far they rose."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    peak = before

    def growth() -> float:
        return (peak - before) / 1e6

    try:
        yield growth
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
