"""Keyword arguments of the Python API become settings; the environment is never read."""

from collections.abc import Mapping
from typing import Any, TypeVar

from tardis_machine.app.settings.loading import settings_from
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import Secret

T = TypeVar("T")


def settings_of(settings: type[T], options: Mapping[str, Any]) -> T:
    """Return settings from options in snake or camel case; None leaves the default.

    Raises:
        SettingsError: with every unknown name, and the nearest valid one, and every bad value.
    """
    if "config" in options:
        raise SettingsError(
            "A config file is read by commands only; pass its settings as arguments."
        )
    return settings_from(settings, _given(options)).settings


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what was not given, and write the rest as a file would hold it."""
    return {name: _plain(value) for name, value in options.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return _given(value)
    return list(value) if isinstance(value, tuple) else value
