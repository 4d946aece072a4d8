"""The `options` of a request, decoded."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import NormalizedReplayRequest, ReplayRequest, StreamRequest
from tardis_machine.model.texts import shortened

Request = TypeVar("Request", ReplayRequest, NormalizedReplayRequest, StreamRequest)


class OptionsError(RequestError):
    """`options` is not JSON."""


def parse_raw_options(text: str | bytes | None) -> ReplayRequest:
    """Decode one raw request; anything but an object is a request without fields."""
    value = _decode(text)
    return _convert(value if isinstance(value, dict) else {}, ReplayRequest)


def parse_normalized_options(text: str | bytes | None) -> Sequence[NormalizedReplayRequest]:
    """Decode one normalized request or a list of them."""
    return _entries(text, NormalizedReplayRequest)


def parse_stream_options(text: str | bytes | None) -> Sequence[StreamRequest]:
    """Decode one stream request or a list of them."""
    return _entries(text, StreamRequest)


def _entries(text: str | bytes | None, request: type[Request]) -> list[Request]:
    value = _decode(text)
    entries = value if isinstance(value, list) else [value]
    return [_convert(entry if isinstance(entry, dict) else {}, request) for entry in entries]


def _decode(text: str | bytes | None) -> Any:
    if text is None:
        raise OptionsError('"undefined" is not valid JSON')
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OptionsError(f"Invalid 'options' parameter: {shortened(str(error))}") from error
    except RecursionError:
        raise OptionsError("Invalid 'options' parameter: JSON is nested too deeply") from None


def _convert(value: dict[str, Any], request: type[Request]) -> Request:
    try:
        return msgspec.convert(value, request)
    except msgspec.ValidationError as error:
        raise RequestError(f"Invalid 'options' parameter: {error}") from error
