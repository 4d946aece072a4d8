"""Structured logs: readable on a terminal, one JSON object per line otherwise.

Modules use `get_logger(__name__)` and log constant texts with the data as fields. All of it goes
through the standard library, so an application that embeds this package decides what to show; the
command line calls `configure_logs`. structlog is imported by those who log.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, Literal, TextIO

from tardis_machine.model.settings import Secret, option

LogFormat = Literal["auto", "console", "json"]

_FIELDS = "tardis_machine_fields"
_MASK = "***"
_SECRET_KEY = re.compile(
    r"(?:api_?key|access_?key|token|secret|password|passphrase|authorization)$", re.IGNORECASE
)
# Keys also travel in URLs (`?token=…`), in headers and in connection strings.
_SECRET_TEXT = re.compile(
    r"(?i)((?:api_?key|token|secret|password|sharedaccess(?:key|signature))=|bearer )[^&;,\s\"']+"
)
_USER_INFO = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Log level and format."""

    debug: bool = option(default=False, help="Log at level debug.", only_true_is_on=True)
    log_format: LogFormat = option(
        "auto", "Format of log lines; auto: console on a terminal, json otherwise."
    )


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


def configure_logs(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send the logs of this package and of every library to `stream` (standard error)."""
    bridge_logs()
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(settings.log_format, is_terminal=stream.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries are quiet unless something is wrong; their debug lines would bury ours.
    root.setLevel(logging.WARNING)
    level = logging.DEBUG if settings.debug else logging.INFO
    logging.getLogger("tardis_machine").setLevel(level)
    logging.captureWarnings(capture=True)


def hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
    """Mask secrets by type, by the name of their field and by their place in a text."""
    for key, value in event.items():
        if isinstance(value, Secret) or (value and _SECRET_KEY.search(key)):
            event[key] = _MASK
        elif isinstance(value, str):
            event[key] = _USER_INFO.sub(rf"\1{_MASK}@", _SECRET_TEXT.sub(rf"\1{_MASK}", value))
    return event


def _hand_over(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Pass the text as the message and the data as one attribute of the log record."""
    # One attribute, because the standard library refuses fields named like its own (`name`).
    text = event.pop("event")
    exc_info = event.pop("exc_info", None)
    return {"msg": text, "extra": {_FIELDS: dict(event)}, "exc_info": exc_info}


def _take_over(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
    event.update(getattr(event["_record"], _FIELDS, {}))
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
