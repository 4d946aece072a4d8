"""Where option values come from: the environment, a TOML file or a mapping; flags are apart.

Each reader returns a `Layer`: what was given, under which name, and what was wrong with the names.
Values are read later, when it is known which layer wins.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tardis_machine.app.settings.options import (
    ENV_PREFIX,
    KnownNames,
    Option,
    Spelling,
    Vocabulary,
    snake_case,
)
from tardis_machine.model.errors import nearest_hint

# TM_ variables of other programs are ignored, unless they look like a misspelled option.
_TYPING_MISTAKE = 0.9


@dataclass(frozen=True)
class Given:
    """One value as given, with its origin."""

    option: Option
    raw: object
    origin: str
    is_file: bool = False


@dataclass
class Layer:
    """What one place gives, in order; a later entry for the same option wins."""

    given: list[Given] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_environment(
    environ: Mapping[str, str], vocabulary: Vocabulary, known: KnownNames
) -> tuple[Layer, Layer]:
    """Read `TM_*` variables; the first layer holds those that beat the command line."""
    overriding, plain = Layer(), Layer()
    for option in vocabulary.options:
        declared = option.declared
        for variable, layer in (
            (declared.override_env, overriding),
            (declared.fallback_env, plain),
        ):
            if variable is not None and variable in environ:
                layer.given.append(Given(option, environ[variable], variable))
    # Later entries win, so ours beat the fallbacks.
    for variable in sorted(environ):
        if spelling := vocabulary.variables.get(variable):
            raw = _environment_value(spelling, environ[variable])
            plain.given.append(Given(spelling.option, raw, variable, spelling.is_file))
        elif variable.startswith(ENV_PREFIX):
            plain.problems.extend(_unknown_variable(variable, known))
    return overriding, plain


def _environment_value(spelling: Spelling, text: str) -> object:
    return text == "true" if spelling.option.declared.only_true_is_on else text


def _unknown_variable(variable: str, known: KnownNames) -> Iterator[str]:
    if variable in known.variables:
        return
    prefixes = tuple(f"{ENV_PREFIX}{table.upper()}_" for table in known.tables)
    is_ours = variable.startswith(prefixes)
    if is_ours or get_close_matches(variable, known.variables, n=1, cutoff=_TYPING_MISTAKE):
        yield f"Unknown variable {variable}.{nearest_hint(variable, known.variables)}"


def read_file(path: Path, vocabulary: Vocabulary, known: KnownNames) -> Layer:
    """Read a TOML file that may also hold what other commands use."""
    # Most commands read no file, and the parser takes a while to import.
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        return Layer(problems=[f"{path} cannot be read: {exc}."])
    return read_mapping(content, str(path), vocabulary, known)


def read_mapping(
    content: Mapping[str, Any], origin: str, vocabulary: Vocabulary, known: KnownNames
) -> Layer:
    """Read nested keys, in snake or camel case, as a TOML file or a Python caller gives them."""
    result = Layer()
    for key, value in _flatten(content, known.tables):
        if spelling := vocabulary.keys.get(key):
            result.given.append(Given(spelling.option, value, f"{origin} {key}", spelling.is_file))
        elif key not in known.keys:
            hint = nearest_hint(key, known.keys)
            result.problems.append(f"{origin}: unknown key '{key}'.{hint}")
    return result


def _flatten(content: Mapping[str, Any], tables: set[str]) -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        name = snake_case(key)
        if name in tables and isinstance(value, Mapping):
            yield from ((f"{name}.{snake_case(inner)}", item) for inner, item in value.items())
        else:
            yield name, value
