"""Templates for keys and destinations: `bronze.{{exchange}}.{{payloadCase}}`.

A template is compiled when settings are read and rendered per series. Only what is substituted is
made safe for its use; the literal text around it is the operator's own.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tardis_machine.bronze.series import Series
from tardis_machine.model.errors import SettingsError, nearest_hint

Placeholder: TypeAlias = Callable[[Series], str]

PLACEHOLDERS: dict[str, Placeholder] = {
    "exchange": lambda series: series.exchange,
    "symbol": lambda series: series.symbol,
    "payloadCase": lambda series: series.case.camel,
    "dataType": lambda series: series.data_type,
    "source": lambda series: series.source,
    "origin": lambda series: series.origin.value,
}
"""What `{{name}}` stands for; `meta.<key>` is the value of that key, or nothing."""

DEFAULT_KEY = "{{exchange}}|{{symbol}}|{{payloadCase}}"
"""Keeps the order of every instrument and payload case."""

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_META_KEY = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_NOT_IN_SUBJECT = re.compile(r"[\s.*>\x00-\x1f\x7f-\x9f]")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._-]")
_MD5_LENGTH = 32


@dataclass(frozen=True)
class NameRule:
    """What may stand in a rendered text, such as a topic or a key."""

    clean: Callable[[str], str]
    """Applied to every substituted value."""
    finish: Callable[[str], str]
    """Applied to the whole text."""


def _same(text: str) -> str:
    return text


def _or_underscore(text: str) -> str:
    return text or "_"


def _clean_token(text: str) -> str:
    """Make a value one token of a NATS subject."""
    return _or_underscore(_NOT_IN_SUBJECT.sub("_", text))


def _clean_name(text: str) -> str:
    return _NOT_IN_NAME.sub("_", text)


def _finish_name(text: str) -> str:
    """Replace the three texts that are no name although every character is allowed."""
    return "_" if text in ("", ".", "..") else text


def _at_most(limit: int) -> Callable[[str], str]:
    """Return a function that cuts longer text and keeps it distinct by its hash."""
    kept = limit - _MD5_LENGTH - 1

    def shorten(text: str) -> str:
        if len(text) <= limit:
            return text
        digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        return f"{text[:kept]}#{digest}"

    return shorten


VERBATIM = NameRule(_same, _same)
"""Kafka keys and Redis streams: any text."""
SUBJECT = NameRule(_clean_token, _same)
"""NATS subjects: values are single tokens."""
NAME = NameRule(_clean_name, _finish_name)
"""Topics, Kinesis streams and event hubs: letters, digits, `.`, `_` and `-`."""
KINESIS_KEY = NameRule(_or_underscore, _at_most(256))
EVENT_HUBS_KEY = NameRule(_or_underscore, _at_most(128))


@dataclass(frozen=True)
class Template:
    """Compiled text with placeholders."""

    parts: tuple[str | Placeholder, ...]
    rule: NameRule

    @property
    def is_constant(self) -> bool:
        """Say whether it renders to the same text for every series."""
        return all(isinstance(part, str) for part in self.parts)

    def render(self, series: Series) -> str:
        """Write the text for one series."""
        clean = self.rule.clean
        texts = (part if isinstance(part, str) else clean(part(series)) for part in self.parts)
        return self.rule.finish("".join(texts))

    def filled(self, value: str) -> str:
        """Write the text with one value for all placeholders, to check or show its form."""
        return "".join(part if isinstance(part, str) else value for part in self.parts)


def compile_template(text: str, option: str, rule: NameRule = VERBATIM) -> Template:
    """Compile a template; SettingsError with every fault, named after the setting `option`."""
    # Splitting by a pattern with one group gives literal text and names in turn.
    pieces = _PLACEHOLDER.split(text)
    problems = [
        problem
        for position, piece in enumerate(pieces)
        if (problem := _fault(piece, option, is_name=position % 2 == 1))
    ]
    if problems:
        raise SettingsError(*problems)
    parts = (
        _placeholder(piece) if position % 2 == 1 else piece for position, piece in enumerate(pieces)
    )
    return Template(tuple(part for part in parts if part != ""), rule)


def _placeholder(name: str) -> Placeholder:
    """Return what gives the value of a name that was found to be valid."""
    if name in PLACEHOLDERS:
        return PLACEHOLDERS[name]
    key = name.removeprefix("meta.")
    if key == "data_type":
        return PLACEHOLDERS["dataType"]
    return lambda series: series.meta.get(key, "")


def _fault(piece: str, option: str, *, is_name: bool) -> str | None:
    """Say what is wrong with a name or a literal, if anything."""
    if not is_name:
        if "{{" not in piece and "}}" not in piece:
            return None
        return f'Malformed {option}: unpaired braces in "{piece}". Expected {{{{name}}}}.'
    prefix, _, key = piece.partition(".")
    if piece in PLACEHOLDERS or (prefix == "meta" and _META_KEY.fullmatch(key)):
        return None
    if prefix == "meta":
        return f'Invalid {option} meta key "{key}". Expected letters, digits and _.'
    valid = (*PLACEHOLDERS, "meta.<key>")
    return (
        f'Unknown {option} placeholder "{{{{{piece}}}}}".{nearest_hint(piece, valid)} '
        f"Valid: {', '.join(valid)}."
    )
