"""Recordings of a whole feed, narrowed to what filters ask for."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tardis_machine.exchanges.filters import merge_filters
from tardis_machine.exchanges.lines import LOCAL_DIGITS, MESSAGE_START
from tardis_machine.exchanges.normalizer import SHAPE_ERRORS, mapping_error
from tardis_machine.exchanges.spec import Exchange, WireFormat
from tardis_machine.exchanges.tags import TagTable
from tardis_machine.model.errors import UnsupportedError
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import us_text

Verdict: TypeAlias = bool | frozenset[str]
"""Whether messages of a tag match; or the symbols that decide, which are not part of the tag."""


class LineFilter:
    """Selects recorded lines by channel and symbol."""

    def __init__(self, exchange: Exchange, filters: Iterable[Filter]) -> None:
        if exchange.load_venue is None:
            raise UnsupportedError(
                f"Recordings of the whole feed of {exchange.id} cannot be filtered yet: "
                "it has no mappers."
            )
        wanted = {entry.channel: frozenset(entry.symbols or ()) for entry in merge_filters(filters)}
        self._wants_everything = not wanted
        self._formats = [
            FormatFilter(exchange.id, wire_format, wanted)
            for wire_format in exchange.load_venue().formats
        ]
        self._switches = [us_text(us)[:LOCAL_DIGITS].encode() for us in exchange.format_switches_us]

    def select(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines that match, in order, with all empty ones: they mark disconnects.

        A message that concerns a whole channel matches whatever symbols are asked for. Without
        filters everything matches.

        Raises:
            MappingError: for a line that is not the documented JSON.
        """
        if self._wants_everything:
            return lines
        if not self._switches:
            return self._formats[0].select(lines)
        return [line for selector, run in self._by_format(lines) for line in selector.select(run)]

    def _by_format(self, lines: list[bytes]) -> Iterator[tuple["FormatFilter", list[bytes]]]:
        """Cut lines where a new format begins."""
        start = 0
        for selector, switch in zip(self._formats, self._switches, strict=False):
            end = start
            while end < len(lines) and lines[end][:LOCAL_DIGITS] < switch:
                end += 1
            yield selector, lines[start:end]
            start = end
        yield self._formats[-1], lines[start:]


class FormatFilter:
    """Selects lines of one wire format."""

    def __init__(
        self, exchange: str, wire_format: WireFormat, wanted: dict[str, frozenset[str]]
    ) -> None:
        self._exchange = exchange
        self._format = wire_format
        self._wanted = wanted
        self._verdicts: TagTable[Verdict] = TagTable(wire_format.tag, self._verdict, False)

    def select(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines that match, in order."""
        verdicts = self._verdicts.known
        selected = []
        line = b""
        try:
            for line, key in zip(lines, self._verdicts.keys(lines), strict=True):
                verdict = verdicts.get(key)
                if verdict is None:
                    verdict = self._verdicts.answer(line[MESSAGE_START:]) if line else True
                if verdict is True or (verdict and self._concerns(line, verdict)):
                    selected.append(line)
        except SHAPE_ERRORS as error:
            raise mapping_error(self._exchange, line, error) from error
        return selected

    def _verdict(self, tag: str) -> Verdict:
        located = self._format.locate(tag)
        wanted = self._wanted.get(located.channel)
        if wanted is None:
            return False
        if not wanted:
            return True
        if located.symbols:
            return not wanted.isdisjoint(located.symbols)
        return True if self._format.symbols is None else wanted

    def _concerns(self, line: bytes, wanted: frozenset[str]) -> bool:
        assert self._format.symbols is not None
        symbols = self._format.symbols(line[MESSAGE_START:])
        return not symbols or not wanted.isdisjoint(symbols)
