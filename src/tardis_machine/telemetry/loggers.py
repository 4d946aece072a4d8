"""Loggers that load the logging library when they first write.

structlog takes a third of a second to import. Many processes never log: readers of the lake, which
Spark starts by the dozen, and commands that print a line and end.
"""

from typing import Any


class Logger:
    """Stands for the structured logger of a module."""

    __slots__ = ("_logger", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._logger: Any = None

    def __getattr__(self, method: str) -> Any:
        if self._logger is None:
            import structlog

            self._logger = structlog.get_logger(self._name)
        return getattr(self._logger, method)


def get_logger(name: str) -> Logger:
    """Return the logger of a module."""
    return Logger(name)
