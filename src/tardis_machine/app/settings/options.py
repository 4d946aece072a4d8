"""The options of a composed settings class: one declaration, every spelling."""

import dataclasses
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tardis_machine.model.settings import GROUP, Declaration, GroupDeclaration, Secret

ENV_PREFIX = "TM_"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """One option with everything that can be derived from its declaration."""

    path: tuple[str, ...]
    """Field names from the root of the composed class."""
    group: type
    """The class that declares it."""
    annotation: Any
    """What it holds, without `| None`."""
    is_optional: bool
    default: Any
    declared: Declaration
    names: GroupDeclaration

    @property
    def field(self) -> str:
        """Return the name of the field."""
        return self.path[-1]

    @property
    def name(self) -> str:
        """Return the name that messages use: the flag without its dashes."""
        return _join(self.names.flag_prefix, self.field).replace("_", "-")

    @property
    def is_secret(self) -> bool:
        """Say whether the value must not be shown, and may come from a file."""
        return self.annotation is Secret or self.declared.secret

    @property
    def is_list(self) -> bool:
        """Say whether it holds any number of values."""
        return get_origin(self.annotation) is tuple

    @property
    def is_map(self) -> bool:
        """Say whether it holds keys and values."""
        return get_origin(self.annotation) in (dict, Mapping)

    @property
    def is_flag(self) -> bool:
        """Say whether it is switched on by its name alone."""
        return self.annotation is bool and self.default is False

    @property
    def is_required(self) -> bool:
        """Say whether it has no default."""
        return self.default is dataclasses.MISSING

    @property
    def env(self) -> str:
        """Return the name of its environment variable."""
        return env_name(_join(self.names.prefix, self.field))

    @property
    def key(self) -> str:
        """Return its place in a TOML file, such as `kafka.topic`."""
        table = self.names.prefix.replace("-", "_")
        return f"{table}.{self.field}" if table else self.field


@dataclasses.dataclass(frozen=True)
class Spelling:
    """A name under which an option may be given, as its value or as a file that holds it."""

    option: Option
    is_file: bool = False


class Vocabulary:
    """Every valid name of some options: flags, variables and TOML keys."""

    def __init__(self, options: Iterable[Option]) -> None:
        self.options = tuple(options)
        self.flags: dict[str, Spelling] = {}
        self.variables: dict[str, Spelling] = {}
        self.keys: dict[str, Spelling] = {}
        for option in self.options:
            for name, is_file in _names(option):
                self._add(option, name, Spelling(option, is_file))

    def _add(self, option: Option, name: str, spelling: Spelling) -> None:
        prefix, flag_prefix = option.names.prefix, option.names.flag_prefix
        if not option.declared.is_argument:
            self._claim(self.flags, "--" + _join(flag_prefix, name).replace("_", "-"), spelling)
        self._claim(self.variables, env_name(_join(prefix, name)), spelling)
        table = prefix.replace("-", "_")
        self._claim(self.keys, f"{table}.{name}" if table else name, spelling)

    @staticmethod
    def _claim(taken: dict[str, Spelling], name: str, spelling: Spelling) -> None:
        other = taken.setdefault(name, spelling)
        if other.option.path != spelling.option.path:
            raise ValueError(f"{name!r} names both {other.option.path} and {spelling.option.path}")


@dataclasses.dataclass(frozen=True)
class KnownNames:
    """Variables and TOML keys that some command understands, though perhaps not this one."""

    variables: frozenset[str]
    keys: frozenset[str]

    @classmethod
    def of(cls, *vocabularies: Vocabulary) -> "KnownNames":
        """Unite the names of several commands: one file or environment serves them all."""
        return cls(
            frozenset().union(*(vocabulary.variables for vocabulary in vocabularies)),
            frozenset().union(*(vocabulary.keys for vocabulary in vocabularies)),
        )

    @property
    def tables(self) -> set[str]:
        """Return the names of all TOML tables."""
        return {key.partition(".")[0] for key in self.keys if "." in key}


def options_of(settings: type) -> tuple[Option, ...]:
    """Return every option of a composed settings class, in declaration order."""
    return tuple(_walk(settings, (), GroupDeclaration()))


def env_name(name: str) -> str:
    """Return the environment variable of an option name."""
    return ENV_PREFIX + name.upper().replace("-", "_")


def snake_case(name: str) -> str:
    """Return a camelCase or dashed key as files spell it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def _walk(settings: type, path: tuple[str, ...], names: GroupDeclaration) -> Iterator[Option]:
    hints = get_type_hints(settings)
    for field in dataclasses.fields(settings):
        where = (*path, field.name)
        if GROUP in field.metadata:
            yield from _walk(hints[field.name], where, field.metadata[GROUP])
        elif "help" in field.metadata:
            annotation, is_optional = _without_none(hints[field.name])
            yield Option(
                path=where,
                group=settings,
                annotation=annotation,
                is_optional=is_optional,
                default=_default(field),
                declared=Declaration.of(field),
                names=names,
            )


def _names(option: Option) -> Iterator[tuple[str, bool]]:
    for name in (option.field, *option.declared.aliases):
        yield name, False
        if option.is_secret:
            yield f"{name}_file", True


def _join(prefix: str, name: str) -> str:
    return f"{prefix}_{name}" if prefix else name


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """Split `X | None` into X and whether None was there."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation, False
    kept = [part for part in get_args(annotation) if part is not types.NoneType]
    is_optional = len(kept) < len(get_args(annotation))
    # A union of two types has no rule of its own; its option brings a `parse` function.
    return (kept[0] if len(kept) == 1 else annotation), is_optional


def choices_of(annotation: Any) -> tuple[str, ...]:
    """Return the texts of a Literal or an enumeration, or nothing."""
    if get_origin(annotation) is Literal:
        return tuple(str(value) for value in get_args(annotation))
    if isinstance(annotation, type) and hasattr(annotation, "__members__"):
        return tuple(str(member.value) for member in annotation.__members__.values())
    return ()
