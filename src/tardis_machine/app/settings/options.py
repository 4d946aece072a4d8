"""The options of a composed settings class: one declaration, every spelling."""

import dataclasses
import re
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cache, cached_property
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
        return self.spellings[0]

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return the name and its aliases, as messages use them."""
        return tuple(self._flag_name(name) for name in self._fields)

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the flag and its aliases; none for an argument, or what overrides another."""
        if self.declared.is_argument or self.declared.overrides:
            return ()
        return tuple(f"--{name}" for name in self.spellings)

    @property
    def is_usual(self) -> bool:
        """Say whether short help shows it."""
        return self.field in getattr(self.group, "usual", (self.field,))

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the environment variable and its aliases."""
        return tuple(self._variable(name) for name in self._fields)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the place in a TOML file, such as `kafka.topic`, and its aliases."""
        return tuple(self._key(name) for name in self._fields)

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
        return self.variables[0]

    @property
    def key(self) -> str:
        """Return its place in a TOML file."""
        return self.keys[0]

    def file_form(self) -> "Option":
        """Return the same option under the names by which a secret is read from a file."""
        aliases = tuple(f"{name}_file" for name in self.declared.aliases)
        declared = dataclasses.replace(self.declared, aliases=aliases)
        path = (*self.path[:-1], f"{self.field}_file")
        return dataclasses.replace(self, path=path, declared=declared)

    @property
    def _fields(self) -> tuple[str, ...]:
        return self.field, *self.declared.aliases

    def _flag_name(self, name: str) -> str:
        return _join(self.names.flag_prefix, name).replace("_", "-")

    def _variable(self, name: str) -> str:
        return ENV_PREFIX + _join(self.names.prefix, name).upper().replace("-", "_")

    def _key(self, name: str) -> str:
        table = self.names.prefix.replace("-", "_")
        return f"{table}.{name}" if table else name


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
        self.without_flag = {
            f"--{each.name}": each for each in self.options if each.declared.overrides
        }
        """Options that are set otherwise, by what would be their flags."""
        for option in self.options:
            self._add(option, Spelling(option))
            if option.is_secret:
                self._add(option.file_form(), Spelling(option, is_file=True))

    def _add(self, named: Option, spelling: Spelling) -> None:
        for taken, names in (
            (self.flags, named.flags),
            (self.variables, named.variables),
            (self.keys, named.keys),
        ):
            for name in names:
                self._claim(taken, name, spelling)

    @staticmethod
    def _claim(taken: dict[str, Spelling], name: str, spelling: Spelling) -> None:
        other = taken.setdefault(name, spelling)
        if other.option.path != spelling.option.path:
            raise ValueError(f"{name!r} names both {other.option.path} and {spelling.option.path}")


class KnownNames:
    """Variables and TOML keys that some command understands, though perhaps not this one.

    One file or environment serves all commands. They are asked for their names only when the
    command that runs does not know one, because that loads the settings of all.
    """

    def __init__(self, settings: Callable[[], Iterable[type]]) -> None:
        self._settings = settings

    @cached_property
    def variables(self) -> frozenset[str]:
        """Return the names of all variables."""
        return frozenset().union(*(vocabulary.variables for vocabulary in self._vocabularies))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Return all keys of a TOML file, such as `kafka.topic`."""
        return frozenset().union(*(vocabulary.keys for vocabulary in self._vocabularies))

    @cached_property
    def _vocabularies(self) -> list[Vocabulary]:
        return [Vocabulary(options_of(settings)) for settings in self._settings()]

    @property
    def tables(self) -> set[str]:
        """Return the names of all TOML tables."""
        return {key.partition(".")[0] for key in self.keys if "." in key}


def options_of(settings: type) -> tuple[Option, ...]:
    """Return every option of a composed settings class, in declaration order."""
    return _options_of(settings)


@cache
def _options_of(settings: Hashable) -> tuple[Option, ...]:
    # A command asks five times while it starts, and resolving annotations takes a while.
    assert isinstance(settings, type)
    return tuple(_walk(settings, (), GroupDeclaration()))


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
