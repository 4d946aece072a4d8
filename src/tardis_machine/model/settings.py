"""How settings are declared: a frozen dataclass beside what it configures, one field per option.

The declaration is pure data. Flags, environment variables, TOML keys, help and documentation are
all derived from it by `tardis_machine.app`::

    @dataclass(frozen=True, kw_only=True)
    class KafkaSettings:
        "Publish to Kafka."

        brokers: tuple[str, ...] = option((), "Bootstrap servers; none: Kafka is off.")
        max_batch_size: int = option(10_000, "Records per batch.", minimum=1)
        sasl_password: Secret | None = option(None, "Password for SASL.")

The field is an ordinary dataclass field whose metadata holds `help` and the `Details` below.
Composed with `group(KafkaSettings, prefix="kafka")`, its first field is `--kafka-brokers`,
`TM_KAFKA_BROKERS` and `brokers` of the table `[kafka]`.

The annotation decides how text is read: bool, int, float, str, Path, Secret, Literal, StrEnum,
`tuple[T, ...]` (comma separated or a JSON list), `Mapping[str, str]` (`key:value` entries or a JSON
object), and any of these `| None`. An int whose name ends in `_bytes` takes sizes such as `64 MiB`.
A bool that is off by default is a flag without a value. A class checks its fields together in
`__post_init__` and raises `SettingsError` with every problem. Its class variable `usual` names the
options that short help shows; without it, short help shows all.
"""

import dataclasses
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack

T = TypeVar("T")

GROUP = "group"
"""The key of field metadata that marks a composed class; `help` marks an option."""


class Secret:
    """Text that must not be shown; only `reveal` gives it out."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself, for the one place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)


class Details(TypedDict, total=False):
    """What an option may say besides its default and its meaning."""

    aliases: tuple[str, ...]
    """Other names, in snake case, accepted wherever the name is."""
    metavar: str
    """What stands for the value in help and errors, such as `host:port`."""
    minimum: float
    maximum: float
    pattern: str
    """A regular expression that the whole text must match."""
    parse: Callable[[str], Any]
    """Reads the text instead of the rule for the annotation; raises ValueError with a sentence."""
    override_env: str
    """A variable that beats even the command line."""
    fallback_env: str
    """A variable of wider use, such as HTTP_PROXY, that counts when ours is not set."""
    only_true_is_on: bool
    """For a flag: any environment text but `true` means off, instead of being an error."""
    secret: bool
    """Never shown, and also readable from a file: as every `Secret`, for values of other types."""
    overrides: str
    """The option whose value this one replaces, for a part of it; such an option has no flag."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declaration:
    """One option as its class declares it."""

    help: str
    shown_default: str | None = None
    is_argument: bool = False
    aliases: tuple[str, ...] = ()
    metavar: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    pattern: str | None = None
    parse: Callable[[str], Any] | None = None
    override_env: str | None = None
    fallback_env: str | None = None
    only_true_is_on: bool = False
    secret: bool = False
    overrides: str | None = None

    @classmethod
    def of(cls, field: dataclasses.Field[Any]) -> "Declaration":
        """Read the metadata of a field."""
        return cls(**field.metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupDeclaration:
    """Under which names the fields of a settings class appear."""

    prefix: str = ""
    flag_prefix: str = ""


REQUIRED: Any = dataclasses.MISSING
"""Use as the default of an option that must be given."""


def option(default: T, help: str, **details: Unpack[Details]) -> T:
    """Declare one option of a settings class."""
    metadata = {"help": help, **details}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=partial(copy, default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def computed_option(
    factory: Callable[[], T], help: str, *, shown_default: str, **details: Unpack[Details]
) -> T:
    """Declare an option whose default depends on the machine; documents show `shown_default`."""
    metadata = {"help": help, "shown_default": shown_default, **details}
    return dataclasses.field(default_factory=factory, metadata=metadata)


def argument(default: T, help: str, **details: Unpack[Details]) -> T:
    """Declare a positional argument of a command; a tuple takes all that are left."""
    metadata = {"help": help, "is_argument": True, **details}
    return dataclasses.field(default=default, metadata=metadata)


def group(settings: Callable[[], T], prefix: str = "", *, flag_prefix: str | None = None) -> T:
    """Compose a settings class into another one.

    Args:
        settings: the class.
        prefix: leads the names of its options; also the name of their TOML table.
        flag_prefix: leads the flags instead, where a command's own flags need no prefix.
    """
    flags = prefix if flag_prefix is None else flag_prefix
    declared = GroupDeclaration(prefix=prefix, flag_prefix=flags)
    return dataclasses.field(default_factory=settings, metadata={GROUP: declared})
