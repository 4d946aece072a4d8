"""Flags and positional arguments of a command line, read strictly.

What cannot be understood is named in an error, unless it may be a part of a secret: a password that
begins with a dash looks like a flag, and one with a blank like an argument.
"""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tardis_machine.app.settings.layers import Given, Layer
from tardis_machine.app.settings.options import Spelling, Vocabulary
from tardis_machine.model.errors import nearest_hint

_REQUESTS = {
    "-h": "wants_help",
    "--help": "wants_help",
    "--help-all": "wants_all_help",
    "-v": "wants_version",
    "--version": "wants_version",
}
_FLAG_NAME = re.compile(r"--?[A-Za-z0-9_-]*")


@dataclass
class CommandLine(Layer):
    """A layer of flags, with the requests that are not settings."""

    wants_help: bool = False
    wants_all_help: bool = False
    wants_version: bool = False


def read_command_line(words: Sequence[str], vocabulary: Vocabulary) -> CommandLine:
    """Read flags (`--x v`, `--x=v`) and positional arguments, strictly."""
    reader = _Reader(words, vocabulary)
    reader.read()
    return reader.result


@dataclass(frozen=True)
class _Argument:
    text: str
    private_flag: str | None
    """The flag before it, if that takes a secret or is unknown, so that it may take one."""


class _Reader:
    """Takes one word after the other."""

    def __init__(self, words: Sequence[str], vocabulary: Vocabulary) -> None:
        self.result = CommandLine()
        self._rest = deque(words)
        self._flags = vocabulary.flags
        self._without_flag = vocabulary.without_flag
        self._options = vocabulary.options
        self._arguments: list[_Argument] = []
        self._private_flag: str | None = None

    def read(self) -> None:
        """Read all words."""
        while self._rest:
            word = self._rest.popleft()
            if word == "--":
                self._arguments.extend(_Argument(text, self._private_flag) for text in self._rest)
                break
            if word in _REQUESTS:
                setattr(self.result, _REQUESTS[word], True)
            elif word.startswith("-") and word != "-":
                self._read_flag(word)
            else:
                self._arguments.append(_Argument(word, self._private_flag))
        self._read_arguments()

    def _read_flag(self, word: str) -> None:
        name, equals, text = word.partition("=")
        spelling = self._flags.get(name)
        if spelling is None:
            self._refuse(name, has_value=bool(equals))
            return
        self._private_flag = name if spelling.option.is_secret else None
        if not spelling.option.is_flag:
            self._take(name, spelling, text if equals else self._next_value())
        elif equals:
            self.result.problems.append(f"Option '{name}' does not take a value.")
        else:
            self._take(name, spelling, True)

    def _take(self, name: str, spelling: Spelling, raw: object) -> None:
        if raw is None:
            self.result.problems.append(
                f"Option '{name}' requires a value; use '{name}=…' for one that starts with a dash."
            )
        else:
            self.result.given.append(Given(spelling.option, raw, name, spelling.is_file))

    def _next_value(self) -> str | None:
        """Return the next word, unless it is a flag itself."""
        if not self._rest or not _is_flag_like(self._rest[0]):
            return self._rest.popleft() if self._rest else None
        if self._private_flag and not self._is_meant_as_flag(self._rest[0]):
            # A secret that begins with a dash: its flag is refused, and it must not be shown.
            self._rest.popleft()
        return None

    def _is_meant_as_flag(self, word: str) -> bool:
        name = word.partition("=")[0]
        known = (*self._flags, *self._without_flag, *_REQUESTS)
        return name in known or bool(nearest_hint(name, known))

    def _refuse(self, name: str, *, has_value: bool) -> None:
        """Report an unknown flag; its value goes with it, so that one mistake gives one message."""
        if self._private_flag and not self._is_meant_as_flag(name):
            self.result.problems.append(
                f"Unknown option after '{self._private_flag}'; it is not shown, because it may be "
                "part of a secret."
            )
        else:
            found = _FLAG_NAME.match(name)
            shown = found[0] if found else "-"
            self._private_flag = shown
            self.result.problems.append(self._unknown(shown))
        if not has_value and self._rest and not _is_flag_like(self._rest[0]):
            self._rest.popleft()

    def _unknown(self, shown: str) -> str:
        if option := self._without_flag.get(shown):
            return (
                f"'{shown}' is not a flag: set {option.key} in the TOML file (--config) or the "
                f"variable {option.env}. '--{option.declared.overrides}' applies to all buses."
            )
        if shown in self._flags:
            return f"Option '{shown}' takes its value as '{shown} …' or '{shown}=…'."
        return f"Unknown option '{shown}'.{nearest_hint(shown, list(self._flags))}"

    def _read_arguments(self) -> None:
        words = self._arguments
        for option in self._options:
            if option.declared.is_argument and words:
                texts = [word.text for word in words]
                raw: object = texts if option.is_list else texts[0]
                del words[: None if option.is_list else 1]
                self.result.given.append(Given(option, raw, f"argument {option.name}"))
        self.result.problems.extend(map(_unexpected, words))


def _unexpected(argument: _Argument) -> str:
    if argument.private_flag is None:
        return f"Unexpected argument '{argument.text}'."
    return (
        f"Unexpected argument after '{argument.private_flag}'; put a value with blanks in quotes."
    )


def _is_flag_like(text: str) -> bool:
    return text.startswith("--") or (text[:1] == "-" and text[1:2].isalpha())
