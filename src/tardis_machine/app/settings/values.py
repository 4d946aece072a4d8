"""Text (or a TOML value) becomes the typed value of an option."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, get_args, get_origin

from tardis_machine.app.settings.options import Option, choices_of
from tardis_machine.model.errors import nearest_hint
from tardis_machine.model.settings import Secret

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
}
_SIZE = re.compile(r"([\d_.]+)\s*([A-Za-z]*)")


def read_value(option: Option, raw: object) -> Any:
    """Return the value that `raw` gives an option; ValueError says what it must be."""
    if option.declared.parse is not None:
        if isinstance(raw, dict) and get_origin(option.annotation) in (dict, Mapping):
            return dict(_flat_entries(raw))
        return option.declared.parse(_as_text(raw))
    if raw == "" and option.is_optional and option.annotation in (Path, Secret):
        return None
    value = _reader(option.annotation)(option, raw)
    _check(option, value)
    return value


def expectation(option: Option) -> str:
    """Say in words what an option takes, for errors and documents."""
    annotation, declared = option.annotation, option.declared
    if choices := choices_of(annotation):
        return f"one of {', '.join(choices)}"
    if annotation in (int, float):
        kind = "an integer" if annotation is int else "a number"
        if option.field.endswith("_bytes"):
            kind = "a size in bytes or with KiB, MiB, GiB, KB, MB, GB,"
        return kind + _bounds(declared.minimum, declared.maximum)
    return {bool: "true or false", Path: "a path"}.get(annotation, "text")


def _bounds(minimum: float | None, maximum: float | None) -> str:
    if minimum is not None and maximum is not None:
        return f" between {minimum:g} and {maximum:g}"
    if minimum is not None:
        return f" of at least {minimum:g}"
    return "" if maximum is None else f" of at most {maximum:g}"


def _reader(annotation: Any) -> Callable[[Option, Any], Any]:
    if choices_of(annotation):
        return _read_choice
    origin = get_origin(annotation)
    if origin is tuple:
        return _read_list
    if origin in (dict, Mapping):
        return _read_map
    return _READERS[annotation]


def _check(option: Option, value: object) -> None:
    declared = option.declared
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, int | float) and not isinstance(item, bool):
            low = declared.minimum is not None and item < declared.minimum
            high = declared.maximum is not None and item > declared.maximum
            if low or high:
                raise _must_be(option)
        is_text = declared.pattern is not None and isinstance(item, str)
        if is_text and not re.fullmatch(str(declared.pattern), item):
            raise ValueError(f"{option.name} must match {declared.pattern}.")


def _must_be(option: Option) -> ValueError:
    return ValueError(f"{option.name} must be {expectation(option)}.")


def _as_text(raw: object) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return raw if isinstance(raw, str) else str(raw)


def _read_text(option: Option, raw: object) -> str:
    if isinstance(raw, dict | list):
        raise _must_be(option)
    return _as_text(raw)


def _read_bool(option: Option, raw: object) -> bool:
    if raw is True or raw == "true":
        return True
    if raw is False or raw == "false":
        return False
    raise _must_be(option)


def _read_int(option: Option, raw: object) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    try:
        if option.field.endswith("_bytes"):
            return _size(_read_text(option, raw))
        return int(_read_text(option, raw))
    except (ValueError, KeyError, InvalidOperation) as exc:
        raise _must_be(option) from exc


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(text)
    size = Decimal(match[1]) * _UNITS[match[2].upper()]
    if size != int(size):
        raise ValueError(text)
    return int(size)


def _read_float(option: Option, raw: object) -> float:
    try:
        number = float(_read_text(option, raw))
    except ValueError as exc:
        raise _must_be(option) from exc
    if not math.isfinite(number):
        raise _must_be(option)
    return number


def _read_choice(option: Option, raw: object) -> Any:
    text = _as_text(raw)
    choices = choices_of(option.annotation)
    if text not in choices:
        raise ValueError(f"{_must_be(option)}{nearest_hint(text, choices)}")
    return option.annotation(text) if isinstance(option.annotation, type) else text


def _read_list(option: Option, raw: object) -> tuple[Any, ...]:
    if isinstance(raw, str):
        raw = _read_json(option, raw) if raw.lstrip().startswith("[") else _entries(raw)
    if not isinstance(raw, list):
        raise ValueError(f"{option.name} must be a list.")
    reader = _reader(get_args(option.annotation)[0])
    return tuple(reader(option, item) for item in raw)


def _read_map(option: Option, raw: object) -> dict[str, str]:
    if isinstance(raw, str):
        if not raw.lstrip().startswith("{"):
            return _read_pairs(option, _entries(raw))
        raw = _read_json(option, raw)
    if not isinstance(raw, dict):
        raise ValueError(f"{option.name} must be key:value entries or a table.")
    return {key: _as_text(value) for key, value in raw.items()}


def _flat_entries(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the entries of a table; TOML reads the dots of a bare key as tables in tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat_entries(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _as_text(value)


def _read_pairs(option: Option, entries: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for entry in entries:
        key, colon, value = (part.strip() for part in entry.partition(":"))
        if not (key and colon):
            expected = option.declared.metavar or "key:value"
            shown = "" if option.is_secret else f' "{entry}"'
            raise ValueError(f"Invalid {option.name} entry{shown}. Expected {expected}.")
        if key in pairs:
            raise ValueError(f'Duplicate {option.name} entry "{key}".')
        pairs[key] = value
    return pairs


def _read_json(option: Option, text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        raise ValueError(f"{option.name} is not valid JSON: {exc}.") from exc


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


_READERS: dict[Any, Callable[[Option, Any], Any]] = {
    bool: _read_bool,
    int: _read_int,
    float: _read_float,
    str: _read_text,
    Path: lambda option, raw: Path(_read_text(option, raw)).expanduser(),
    Secret: lambda option, raw: Secret(_read_text(option, raw)),
}
