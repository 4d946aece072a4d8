"""Loggers that load the logging library when they first write.

structlog takes a quarter of a second to import. Many processes never log: servers while they start,
readers of the lake, which Spark starts by the dozen, and commands that print a line and end.
"""

from collections.abc import MutableMapping
from typing import Any

from tardis_machine.telemetry.masking import hide_in_field

FIELDS, TEXT = "tardis_machine_fields", "tardis_machine_text"
"""The attributes of a log record that hold the data of an event and its text alone."""


class Logger:
    """Stands for the structured logger of a module."""

    __slots__ = ("_logger", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._logger: Any = None

    def __getattr__(self, method: str) -> Any:
        bridge_logs()
        if self._logger is None:
            import structlog

            self._logger = structlog.get_logger(self._name)
        return getattr(self._logger, method)


def get_logger(name: str) -> Logger:
    """Return the logger of a module."""
    return Logger(name)


def bridge_logs() -> None:
    """Hand structured logs to the standard library, unless the application set up structlog."""
    import structlog

    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            _hand_over,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _hand_over(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Pass the text as the message and the data as one attribute of the log record."""
    # One attribute, because the standard library refuses fields named like its own (`name`).
    text = event.pop("event")
    exc_info = event.pop("exc_info", None)
    fields = dict(event)
    # Applications that did not set up our format see the message only.
    shown = (f"{name}={hide_in_field(name, value)}" for name, value in fields.items())
    return {
        "msg": " ".join([text, *shown]),
        "extra": {FIELDS: fields, TEXT: text},
        "exc_info": exc_info,
    }
