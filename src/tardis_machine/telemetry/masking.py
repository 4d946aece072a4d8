"""Mask secrets in texts that people read: logs, health checks, errors."""

import re
from collections.abc import Mapping
from typing import Any

from tardis_machine.model.settings import Secret

MASK = "***"

_SECRET_KEY = re.compile(
    r"(?:api_?key|access_?key|token|secret|password|passphrase|authorization)$", re.IGNORECASE
)
# Keys also travel in URLs (`?token=…`), in headers and in connection strings.
_SECRET_TEXT = re.compile(
    r"(?i)((?:api_?key|token|secret|password|sharedaccess(?:key|signature))=|bearer )[^&;,\s\"']+"
)
# With a scheme before it or without: a client may log what it was given as a host.
_USER_INFO = re.compile(r"([^/\s:@\"',]*:)[^/\s@\"',]+@")


def hide_in_text(text: str) -> str:
    """Return a text without passwords in addresses and without keys in URLs and headers."""
    return _USER_INFO.sub(rf"\1{MASK}@", _SECRET_TEXT.sub(rf"\1{MASK}", text))


def hide_in_field(name: str, value: Any) -> Any:
    """Return the value of a field, masked by its type, by the name and by what texts hold."""
    if isinstance(value, Secret) or (value and _SECRET_KEY.search(name)):
        return MASK
    if isinstance(value, str):
        return hide_in_text(value)
    if isinstance(value, list | tuple):
        return [hide_in_field("", item) for item in value]
    if isinstance(value, Mapping):
        return {key: hide_in_field(str(key), item) for key, item in value.items()}
    return value
