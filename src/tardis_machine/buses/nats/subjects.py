"""Subjects of NATS: tokens between dots, `*` for any one token, `>` for one or more at the end."""

import re
from collections.abc import Iterable, Sequence

from tardis_machine.bronze.keys import SUBJECT, compile_template

_TOKEN = r"[^\s.*>\x00-\x1f\x7f]+"  # noqa: S105 (a word of NATS, not a secret)
_LITERAL = re.compile(rf"{_TOKEN}(?:\.{_TOKEN})*")
_PATTERN = re.compile(rf"(?:{_TOKEN}|\*)(?:\.(?:{_TOKEN}|\*))*(?:\.>)?|>")
_PLACEHOLDER = "\0"


def is_literal(subject: str) -> bool:
    """Say whether a subject can be published to."""
    return _LITERAL.fullmatch(subject) is not None


def is_pattern(subject: str) -> bool:
    """Say whether a subject, wildcards included, can be subscribed to."""
    return _PATTERN.fullmatch(subject) is not None


def pattern_of(template: str) -> str:
    """Return a template as a pattern: a token that holds a placeholder is any token."""
    filled = compile_template(template, "", SUBJECT).filled(_PLACEHOLDER)
    return ".".join("*" if _PLACEHOLDER in token else token for token in filled.split("."))


def covers(wide: str, narrow: str) -> bool:
    """Say whether a pattern takes all that another one does."""
    wide_tokens, narrow_tokens = wide.split("."), narrow.split(".")
    for place, wanted in enumerate(wide_tokens):
        if wanted == ">":
            return len(narrow_tokens) > place
        if place >= len(narrow_tokens) or wanted not in ("*", narrow_tokens[place]):
            return False
        if wanted == "*" and narrow_tokens[place] == ">":
            return False
    return len(wide_tokens) == len(narrow_tokens)


def widest(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return patterns without those that another one covers."""
    found = tuple(dict.fromkeys(patterns))
    return tuple(
        one for one in found if not any(one != other and covers(other, one) for other in found)
    )


def matcher(patterns: Sequence[str]) -> re.Pattern[bytes]:
    """Return what matches the subjects, as bytes, that one of the patterns takes."""
    escaped = (re.escape(text).replace(r"\*", "[^.]+").replace(">", ".+") for text in patterns)
    return re.compile("|".join(escaped).encode())
