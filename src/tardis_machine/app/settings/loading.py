"""Flags over environment over file over defaults become one settings object, or every problem."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, get_type_hints

from tardis_machine.app.settings.layers import (
    Given,
    Layer,
    read_command_line,
    read_environment,
    read_file,
    read_mapping,
)
from tardis_machine.app.settings.options import KnownNames, Option, Vocabulary, options_of
from tardis_machine.app.settings.values import read_value
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import GROUP

T = TypeVar("T")
FieldPath: TypeAlias = tuple[str, ...]
DEFAULT_ORIGIN = "default"


@dataclasses.dataclass(frozen=True)
class Loaded(Generic[T]):
    """Settings, and where each value came from."""

    settings: T
    origins: Mapping[str, str]
    """Option name to flag, variable, file and key, or `default`."""

    def rows(self) -> list[tuple[str, str, str]]:
        """Return name, shown value and origin of every option; secrets stay hidden."""
        return [
            (option.name, _shown(self.settings, option), self.origins[option.name])
            for option in options_of(type(self.settings))
        ]


def load_settings(
    settings: type[T],
    words: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    known: KnownNames | None = None,
) -> Loaded[T]:
    """Load settings for a command line; raise one `SettingsError` with every problem.

    Args:
        settings: a composed settings class. Its option `config` names a TOML file, if it has one.
        words: the command line after the command's name.
        environ: the environment; none is read when absent.
        known: names that are valid for other commands too, and thus ignored rather than refused.
    """
    vocabulary = Vocabulary(options_of(settings))
    known = known or KnownNames.of(vocabulary)
    flags = read_command_line(words, vocabulary)
    overriding, variables = read_environment(environ or {}, vocabulary, known)
    layers: list[Layer] = [overriding, flags, variables]
    path = next((given.raw for layer in layers for given in layer.given if _is_config(given)), None)
    if path:
        layers.append(read_file(Path(str(path)).expanduser(), vocabulary, known))
    return merge(settings, layers)


def settings_from(settings: type[T], content: Mapping[str, Any]) -> Loaded[T]:
    """Load settings from keyword arguments or a decoded document, never from the environment."""
    vocabulary = Vocabulary(options_of(settings))
    known = KnownNames.of(vocabulary)
    return merge(settings, [read_mapping(content, "argument", vocabulary, known)])


def merge(settings: type[T], layers: Sequence[Layer]) -> Loaded[T]:
    """Build settings from layers, the strongest first."""
    problems = [problem for layer in layers for problem in layer.problems]
    problems.extend(problem for layer in layers for problem in _conflicts(layer.given))
    winners: dict[FieldPath, Given] = {}
    for layer in reversed(layers):
        winners.update((given.option.path, given) for given in layer.given)
    options = options_of(settings)
    build = _Build(options, winners)
    built = build.make(settings)
    problems.extend(build.problems)
    if problems or built is None:
        raise SettingsError(*problems)
    origins = {
        option.name: winners[option.path].origin if option.path in winners else DEFAULT_ORIGIN
        for option in options
    }
    return Loaded(built, origins)


class _Build:
    """Reads the winning values and makes the classes from them, noting every problem."""

    def __init__(self, options: Iterable[Option], winners: Mapping[FieldPath, Given]) -> None:
        self.problems: list[str] = []
        self._values: dict[FieldPath, Any] = {}
        self._broken: set[FieldPath] = set()
        for option in options:
            try:
                self._read(option, winners.get(option.path))
            except (ValueError, OSError) as exc:
                self._broken.add(option.path)
                self.problems.append(_explained(option, winners.get(option.path), exc))

    def _read(self, option: Option, given: Given | None) -> None:
        if given is not None:
            self._values[option.path] = _value(given)
        elif option.is_required:
            how = f"<{option.name}>" if option.declared.is_argument else f"--{option.name}"
            raise ValueError(f"{how} is required: {option.declared.help}")

    def make(self, settings: type[T], path: FieldPath = ()) -> T | None:
        """Make a class and its groups; None where a field is broken, so that checks make sense."""
        hints = get_type_hints(settings)
        arguments: dict[str, Any] = {}
        is_sound = True
        for field in dataclasses.fields(settings):  # type: ignore[arg-type]
            where = (*path, field.name)
            if GROUP in field.metadata:
                arguments[field.name] = self.make(hints[field.name], where)
                is_sound &= arguments[field.name] is not None
            elif where in self._values:
                arguments[field.name] = self._values[where]
            is_sound &= where not in self._broken
        return self._construct(settings, arguments) if is_sound else None

    def _construct(self, settings: type[T], arguments: Mapping[str, Any]) -> T | None:
        try:
            return settings(**arguments)
        except SettingsError as exc:
            self.problems.extend(exc.problems)
            return None


def _is_config(given: Given) -> bool:
    return given.option.path == ("config",)


def _conflicts(given: Iterable[Given]) -> Iterable[str]:
    """Find secrets that one place gives both as text and as a file."""
    seen: dict[FieldPath, Given] = {}
    for entry in given:
        first = seen.setdefault(entry.option.path, entry)
        if first.is_file != entry.is_file:
            yield f"Give {first.origin} or {entry.origin}, not both."


def _value(given: Given) -> Any:
    raw = given.raw
    if given.is_file:
        raw = Path(str(raw)).expanduser().read_text(encoding="utf-8").strip()
    return read_value(given.option, raw)


def _explained(option: Option, given: Given | None, error: Exception) -> str:
    if given is None:
        return str(error)
    if isinstance(error, OSError):
        return f"{given.origin}: {given.raw} cannot be read: {error.strerror}."
    shown = "" if option.is_secret else f"Got {given.raw!r} from {given.origin}."
    return f"{error} {shown}".rstrip()


def _shown(settings: Any, option: Option) -> str:
    value = settings
    for name in option.path:
        value = getattr(value, name)
    if option.is_secret and value:
        return "***"
    return "" if value is None else str(value)
