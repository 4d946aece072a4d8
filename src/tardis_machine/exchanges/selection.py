"""Recordings of a whole feed, narrowed to what filters ask for."""

from collections.abc import Iterable
from typing import TypeAlias

from tardis_machine.exchanges.filters import merge_filters
from tardis_machine.exchanges.normalizer import MESSAGE_START, SHAPE_ERRORS, mapping_error
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.tags import TagTable
from tardis_machine.model.errors import UnsupportedError
from tardis_machine.model.requests import Filter

Verdict: TypeAlias = bool | frozenset[str]
"""Whether messages of a tag match; or the symbols that decide, which are not part of the tag."""


class LineFilter:
    """Selects recorded lines by channel and symbol."""

    def __init__(self, exchange: Exchange, filters: Iterable[Filter]) -> None:
        if exchange.venue is None:
            raise UnsupportedError(
                f"Recordings of the whole feed of {exchange.id} cannot be filtered yet: "
                "it has no mappers."
            )
        self._exchange = exchange.id
        self._venue = exchange.venue
        self._wanted = {
            entry.channel: frozenset(entry.symbols or ()) for entry in merge_filters(filters)
        }
        self._verdicts: TagTable[Verdict] = TagTable(self._venue.tag, self._verdict, False)
        self._tag_start = MESSAGE_START + len(self._venue.tag.prefix)

    def select(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines that match, in order, with all empty ones: they mark disconnects.

        A message that concerns a whole channel matches whatever symbols are asked for. Without
        filters everything matches.

        Raises:
            MappingError: for a line that is not the documented JSON.
        """
        if not self._wanted:
            return lines
        verdicts = self._verdicts.known
        tag_start = self._tag_start
        selected = []
        line = b""
        try:
            for line in lines:
                verdict = verdicts.get(line[MESSAGE_START : line.find(b'"', tag_start)])
                if verdict is None:
                    verdict = self._verdicts.answer(line[MESSAGE_START:]) if line else True
                if verdict is True or (verdict and self._concerns(line, verdict)):
                    selected.append(line)
        except SHAPE_ERRORS as error:
            raise mapping_error(self._exchange, line, error) from error
        return selected

    def _verdict(self, tag: str) -> Verdict:
        address = self._venue.address(tag)
        wanted = self._wanted.get(address.channel)
        if wanted is None:
            return False
        if not wanted:
            return True
        if address.symbols:
            return not wanted.isdisjoint(address.symbols)
        return True if self._venue.symbols is None else wanted

    def _concerns(self, line: bytes, wanted: frozenset[str]) -> bool:
        assert self._venue.symbols is not None
        symbols = self._venue.symbols(line[MESSAGE_START:])
        return not symbols or not wanted.isdisjoint(symbols)
