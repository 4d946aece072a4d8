"""Structured logs: readable on a terminal, one JSON object per line otherwise.

Modules use `get_logger(__name__)` and log constant texts with the data as fields. All of it goes
through the standard library, so an application that embeds this package decides what to show; the
command line calls `configure_logs`. structlog is imported with the first line that is logged.
"""

import logging
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TextIO

from tardis_machine.model.settings import option
from tardis_machine.telemetry.loggers import FIELDS, TEXT
from tardis_machine.telemetry.masking import hide_in_field

LogFormat = Literal["auto", "console", "json"]

_OF_STRUCTLOG = ("_record", "_from_structlog", "exc_info")


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Log level and format."""

    debug: bool = option(default=False, help="Log at level debug.", only_true_is_on=True)
    log_format: LogFormat = option(
        "auto", "Format of log lines; auto: console on a terminal, json otherwise."
    )


def configure_logs(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send the logs of this package and of every library to `stream` (standard error)."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogFormatter(settings.log_format, is_terminal=stream.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries are quiet unless something is wrong; their debug lines would bury ours.
    root.setLevel(logging.WARNING)
    level = logging.DEBUG if settings.debug else logging.INFO
    logging.getLogger("tardis_machine").setLevel(level)
    logging.captureWarnings(capture=True)


class LogFormatter(logging.Formatter):
    """Writes a log record as a line; made of structlog's parts, which the first line loads."""

    def __init__(self, log_format: LogFormat, *, is_terminal: bool) -> None:
        super().__init__()
        self._log_format = log_format
        self._is_terminal = is_terminal

    @cached_property
    def _formatter(self) -> logging.Formatter:
        return _formatter(self._log_format, is_terminal=self._is_terminal)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return self._formatter.format(record)


def hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
    """Mask secrets by type, by the name of their field and by their place in a text."""
    for key, value in event.items():
        event[key] = value if key in _OF_STRUCTLOG else hide_in_field(key, value)
    return event


def _take_over(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
    record = event["_record"]
    event["event"] = getattr(record, TEXT, event["event"])
    event.update(getattr(record, FIELDS, {}))
    return event


def _formatter(log_format: LogFormat, *, is_terminal: bool) -> logging.Formatter:
    import structlog
    from structlog.stdlib import ProcessorFormatter

    is_console = log_format == "console" or (log_format == "auto" and is_terminal)
    common: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _take_over,
        hide_secrets,
        structlog.processors.TimeStamper(fmt="%H:%M:%S.%f" if is_console else "iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    closing: list[Any] = [ProcessorFormatter.remove_processors_meta]
    if is_console:
        # Plain: the framed form prints local variables, and those hold secrets.
        plain = structlog.dev.plain_traceback
        closing.append(structlog.dev.ConsoleRenderer(colors=is_terminal, exception_formatter=plain))
    else:
        closing += [
            structlog.processors.format_exc_info,
            hide_secrets,
            structlog.processors.JSONRenderer(),
        ]
    return ProcessorFormatter(foreign_pre_chain=common, processors=closing)
