"""Flags over environment over file over defaults become one settings object, or every problem."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from tardis_machine.app.settings.building import Build, FieldPath
from tardis_machine.app.settings.command_line import read_command_line
from tardis_machine.app.settings.hiding import without_credentials
from tardis_machine.app.settings.layers import (
    Given,
    Layer,
    read_environment,
    read_file,
    read_mapping,
)
from tardis_machine.app.settings.options import KnownNames, Option, Vocabulary, options_of
from tardis_machine.model.errors import SettingsError
from tardis_machine.telemetry.masking import MASK, hide_in_text

T = TypeVar("T")
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
    known = known or KnownNames(lambda: [settings])
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
    known = KnownNames(lambda: [settings])
    return merge(settings, [read_mapping(content, "argument", vocabulary, known)])


def merge(settings: type[T], layers: Sequence[Layer]) -> Loaded[T]:
    """Build settings from layers, the strongest first."""
    problems = [problem for layer in layers for problem in layer.problems]
    problems.extend(problem for layer in layers for problem in _conflicts(layer.given))
    winners: dict[FieldPath, Given] = {}
    for layer in reversed(layers):
        winners.update((given.option.path, given) for given in layer.given)
    options = options_of(settings)
    build = Build(options, winners)
    built = build.make(settings)
    problems.extend(build.problems)
    if problems:
        given = (given for layer in layers for given in layer.given)
        raise SettingsError(*without_credentials(problems, given))
    origins = {
        option.name: winners[option.path].origin if option.path in winners else DEFAULT_ORIGIN
        for option in options
    }
    return Loaded(built, origins)


def _is_config(given: Given) -> bool:
    return given.option.path == ("config",)


def _conflicts(given: Iterable[Given]) -> Iterable[str]:
    """Find secrets that one place gives both as text and as a file."""
    seen: dict[FieldPath, Given] = {}
    for entry in given:
        first = seen.setdefault(entry.option.path, entry)
        if first.is_file != entry.is_file:
            yield f"Give {first.origin} or {entry.origin}, not both."


def _shown(settings: Any, option: Option) -> str:
    value = settings
    for name in option.path:
        value = getattr(value, name)
    if option.is_secret and value:
        return MASK
    return "" if value is None else hide_in_text(str(value))
