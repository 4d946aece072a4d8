"""Typed settings from the values that won: every class is made and checked, every problem noted.

A value that cannot be read must not hide the other mistakes of its class. So a stand-in takes its
place, the class is checked all the same, and what its checks say about that option is left out.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, get_args, get_type_hints

from tardis_machine.app.settings.layers import Given
from tardis_machine.app.settings.options import Option, choices_of
from tardis_machine.app.settings.values import read_value
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import GROUP, Secret

T = TypeVar("T")
FieldPath: TypeAlias = tuple[str, ...]

_UNREAD = "unread"
_ASIDE = re.compile(r" is required when |: use ")
"""Behind this, a problem names options whose values do not matter to it."""


class Build:
    """Reads the winning values and makes the classes from them, noting every problem."""

    def __init__(self, options: Iterable[Option], winners: Mapping[FieldPath, Given]) -> None:
        self.problems: list[str] = []
        self._values: dict[FieldPath, Any] = {}
        self._unread: dict[FieldPath, re.Pattern[str]] = {}
        for option in options:
            try:
                self._read(option, winners.get(option.path))
            except (ValueError, OSError) as exc:
                self._values[option.path] = _stand_in(option.annotation, option)
                self._unread[option.path] = _any_of(option.spellings)
                self.problems.append(_explained(option, winners.get(option.path), exc))

    def _read(self, option: Option, given: Given | None) -> None:
        if given is not None:
            self._values[option.path] = _value(given)
        elif option.is_required:
            how = f"<{option.name}>" if option.declared.is_argument else f"--{option.name}"
            raise ValueError(f"{how} is required: {option.declared.help}")

    def make(self, settings: type[T], path: FieldPath = ()) -> T:
        """Make a class and its groups; of no use but for further checks once there are problems."""
        hints = get_type_hints(settings)
        arguments: dict[str, Any] = {}
        for field in dataclasses.fields(settings):  # type: ignore[arg-type]
            where = (*path, field.name)
            if GROUP in field.metadata:
                arguments[field.name] = self.make(hints[field.name], where)
            elif where in self._values:
                arguments[field.name] = self._values[where]
        try:
            return settings(**arguments)
        except SettingsError as exc:
            self.problems.extend(self._new(exc.problems, path))
            return _unchecked(settings, arguments)

    def _new(self, problems: Iterable[str], path: FieldPath) -> Iterator[str]:
        """Yield what a class found, without what it says about its options that were not read."""
        # Those of other classes may have names that are words of any sentence, such as `port`.
        unread = [pattern for where, pattern in self._unread.items() if where[: len(path)] == path]
        for problem in problems:
            claim = _ASIDE.split(problem, maxsplit=1)[0]
            if not any(pattern.search(claim) for pattern in unread):
                yield problem


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")


def _unchecked(settings: type[T], arguments: Mapping[str, Any]) -> T:
    """Make a class without its checks, so that those of the class around it can be made."""
    made = object.__new__(settings)
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        value = field.default
        if field.name in arguments:
            value = arguments[field.name]
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        object.__setattr__(made, field.name, value)
    return made


def _stand_in(annotation: Any, option: Option) -> Any:
    """Return a value that counts as given, so that checks of other options make sense."""
    if option.default and not option.is_required:
        return option.default
    if choices := choices_of(annotation):
        return annotation(choices[0]) if isinstance(annotation, type) else choices[0]
    if option.is_map:
        return {}
    if option.is_list:
        return (_plain_stand_in(get_args(annotation)[0], option),)
    return _plain_stand_in(annotation, option)


def _plain_stand_in(annotation: Any, option: Option) -> Any:
    smallest = option.declared.minimum or 1
    known = {
        int: int(smallest),
        float: float(smallest),
        bool: False,
        Path: Path(_UNREAD),
        Secret: Secret(_UNREAD),
    }
    return known.get(annotation, _UNREAD)


def _value(given: Given) -> Any:
    raw = given.raw
    if given.is_file:
        raw = Path(str(raw)).expanduser().read_text(encoding="utf-8").strip()
    return read_value(given.option, raw)


def _explained(option: Option, given: Given | None, error: Exception) -> str:
    if given is None:
        return str(error)
    if isinstance(error, OSError):
        # The path is not shown: it may be the secret itself, given to the wrong option.
        return f"{given.origin}: the file that it names cannot be read: {error.strerror}."
    shown = "From" if option.is_secret else f"Got {given.raw!r} from"
    return f"{error} {shown} {given.origin}."
