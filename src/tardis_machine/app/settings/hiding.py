"""Problems as people may read them: without credentials that stand in an address.

Secrets are never part of a problem. An address is no secret and is shown, but somebody may have
written it with a password before its `@`, whatever characters that has.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tardis_machine.app.settings.layers import Given
from tardis_machine.telemetry.masking import MASK, hide_in_text


def without_credentials(problems: Iterable[str], given: Iterable[Given]) -> list[str]:
    """Return problems in which given values have nothing before their last `@`."""
    values = (value for each in given for value in _texts(each.raw))
    shown = {text: mask for value in values for text, mask in _masks(value) if text != mask}
    # The longest first: a list before its entries.
    ordered = sorted(shown.items(), key=lambda pair: len(pair[0]), reverse=True)
    return [_masked(problem, ordered) for problem in problems]


def _masked(problem: str, shown: Iterable[tuple[str, str]]) -> str:
    for text, mask in shown:
        problem = problem.replace(text, mask).replace(repr(text)[1:-1], mask)
    return problem


def _texts(raw: object) -> Iterator[str]:
    if isinstance(raw, str):
        yield raw
        if raw.lstrip()[:1] in ("[", "{"):
            with suppress(ValueError):
                yield from _texts(json.loads(raw))
    elif isinstance(raw, Mapping):
        for value in raw.values():
            yield from _texts(value)
    elif isinstance(raw, list | tuple):
        for value in raw:
            yield from _texts(value)


def _masks(value: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a value that may hold credentials, and what is shown instead."""
    # As a path it has no double slashes.
    for text in {value, str(Path(value))}:
        # A connection string has its key elsewhere than before an `@`.
        yield text, _after_user(text) if "@" in text else hide_in_text(text)
    for entry in map(str.strip, value.split(",") if "@" in value else ()):
        if "@" in entry:
            yield entry, _after_user(entry)
        elif entry:
            # A comma may be part of the password. In quotes, as problems show an entry: it may be
            # a single letter.
            yield f'"{entry}"', f'"{MASK}"'


def _after_user(address: str) -> str:
    return f"{MASK}@{address.rpartition('@')[2]}"
