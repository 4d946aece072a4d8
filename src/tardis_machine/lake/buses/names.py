"""Which streams of a bus to read: those that the settings of publishing name."""

import re
from dataclasses import dataclass
from functools import cached_property

from tardis_machine.bronze.keys import compile_template
from tardis_machine.buses.destinations import Destinations

_ANY = "\0"
_GLOB_SIGN = re.compile(r"([*?\[\]\\^])")


@dataclass(frozen=True)
class StreamNames:
    """Names of streams, some of them with parts that can be anything."""

    texts: tuple[str, ...]
    """Names in which `\\0` stands for any text."""

    @classmethod
    def of(cls, destinations: Destinations) -> "StreamNames":
        """Return the names that events are published under, templates included."""
        filled = (compile_template(text, "").filled(_ANY) for text in destinations.texts())
        return cls(tuple(dict.fromkeys(filled)))

    @property
    def literals(self) -> tuple[str, ...]:
        """Return the names that are known as they are."""
        return tuple(text for text in self.texts if _ANY not in text)

    @property
    def globs(self) -> tuple[str, ...]:
        """Return the others as patterns for a search by `*`."""
        open_texts = (text for text in self.texts if _ANY in text)
        return tuple(_GLOB_SIGN.sub(r"\\\1", text).replace(_ANY, "*") for text in open_texts)

    def match(self, name: str) -> bool:
        """Say whether a stream is one of those to read."""
        return self._pattern.fullmatch(name) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        alternatives = (".*".join(map(re.escape, text.split(_ANY))) for text in self.texts)
        return re.compile("|".join(alternatives), re.DOTALL)
