"""Keep pandas out of Spark's Python workers.

pyarrow imports it, for up to a CPU second, only to find out that a value is no DataFrame, and goes
on without it.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def skip_pandas() -> None:
    """Let `import pandas` fail in this process, as if it were not installed."""
    sys.meta_path.insert(0, _NoPandas())


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("Tasks of the lake need no pandas.", name=name)
        return None
