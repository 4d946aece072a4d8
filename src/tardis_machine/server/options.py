"""The `options` of a request, decoded."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import NormalizedReplayRequest, ReplayRequest

Request = TypeVar("Request", ReplayRequest, NormalizedReplayRequest)


class OptionsError(RequestError):
    """`options` is not JSON."""


def parse_raw_options(text: str | bytes | None) -> ReplayRequest:
    """Decode one raw request; anything but an object is a request without fields."""
    value = _decode(text)
    return _convert(value if isinstance(value, dict) else {}, ReplayRequest)


def parse_normalized_options(text: str | bytes | None) -> Sequence[NormalizedReplayRequest]:
    """Decode one normalized request or a list of them."""
    value = _decode(text)
    entries = value if isinstance(value, list) else [value]
    return [
        _convert(entry if isinstance(entry, dict) else {}, NormalizedReplayRequest)
        for entry in entries
    ]


def _decode(text: str | bytes | None) -> Any:
    if text is None:
        raise OptionsError('"undefined" is not valid JSON')
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OptionsError(f"Invalid 'options' parameter: {error}") from error


def _convert(value: dict[str, Any], request: type[Request]) -> Request:
    try:
        return msgspec.convert(value, request)
    except msgspec.ValidationError as error:
        raise RequestError(f"Invalid 'options' parameter: {error}") from error
