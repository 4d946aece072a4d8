"""From raw lines to records, a chunk at a time."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec

from tardis_machine.exchanges.decoding.messages import Decode, decoder_of
from tardis_machine.exchanges.level_texts import TextLevels
from tardis_machine.exchanges.lines import LOCAL_DIGITS, MESSAGE_START
from tardis_machine.exchanges.spec import Emit, Mapper, WireFormat
from tardis_machine.exchanges.tags import TagTable
from tardis_machine.model.compiled import compiled_module
from tardis_machine.model.errors import BookGapError, MappingError
from tardis_machine.model.requests import Filter

SHOWN_BYTES = 200
"""How much of a message that cannot be mapped is shown."""

SHAPE_ERRORS = (
    *(MappingError, msgspec.DecodeError, ValueError, TypeError),
    *(AttributeError, LookupError, ArithmeticError, RecursionError),
)
"""What handlers and decoders raise for messages that do not have the documented shape.

`RecursionError` is that of a decoder, for lists in lists without end.
"""

Map: TypeAlias = Callable[[Any, str, Emit], None]
Route: TypeAlias = tuple[Decode, Map] | tuple[()]
"""What decodes the messages of one tag, and what maps them; nothing when nobody reads them."""


def mapping_error(exchange: str, received: bytes, error: Exception) -> MappingError:
    """Describe a message that cannot be mapped: whose it is, what is wrong, how it starts."""
    shown = received[:SHOWN_BYTES].decode(errors="replace")
    reason = str(error).rstrip(".")
    return MappingError(f"Cannot map a message of {exchange}: {reason}. Received: {shown}")


def _map_lines(
    lines: Sequence[bytes],
    keys: Sequence[bytes],
    routes: Mapping[bytes, Route],
    answer: Callable[[bytes], Route],
    emit: Emit,
    shape_errors: tuple[type[Exception], ...],
    describe: Callable[[bytes, Exception], MappingError],
) -> None:
    """Decode and map lines in their order, as the compiled twin does."""
    line = b""
    try:
        for line, key in zip(lines, keys, strict=True):
            route = routes.get(key)
            if route is None:
                route = answer(line[MESSAGE_START:])
            if route:
                decode, map_decoded = route
                local = str(line[:LOCAL_DIGITS], "ascii") + "Z"
                map_decoded(decode(line[MESSAGE_START:]), local, emit)
    except shape_errors as error:
        raise describe(line, error) from error


_compiled = compiled_module("tardis_machine.exchanges.compiled_normalizer")
map_lines: Callable[..., None] = _map_lines if _compiled is None else _compiled.map_lines


class Normalizer:
    """Maps the messages of one connection with a fixed set of mappers."""

    def __init__(self, exchange: str, wire_format: WireFormat, mappers: Sequence[Mapper]) -> None:
        self._exchange = exchange
        self._format = wire_format
        self._mappers = mappers
        self._routes: TagTable[Route] = TagTable(wire_format.tag, self._route, ())

    def map_lines(self, lines: list[bytes], emit: Emit) -> None:
        """Emit the records of recorded lines, in order.

        Raises:
            MappingError: for the first line that is not the documented JSON. What came before it
                was emitted.
        """
        table = self._routes
        map_lines(
            lines, table.keys(lines), table.known, table.answer, emit, SHAPE_ERRORS, self._describe
        )

    def _describe(self, received: bytes, error: Exception) -> MappingError:
        return mapping_error(self._exchange, received, error)

    def map_message(self, message: bytes, local: str, emit: Emit) -> bytes | None:
        """Emit the records of one live message that arrived at `local`, as wire text.

        Returns:
            The key of the message's tag; None when no mapper reads such messages.

        Raises:
            BookGapError: updates of a book are missing before this one.
            MappingError: the message is not the documented JSON.
        """
        try:
            key, route = self._routes.find(message)
            if route:
                decode, map_decoded = route
                map_decoded(decode(message), local, emit)
            return key if route else None
        except BookGapError:
            raise
        except SHAPE_ERRORS as error:
            raise self._describe(message, error) from error

    def locate(self, message: bytes) -> Filter | None:
        """Return channel and symbols of a message as its tag tells them; None without a tag."""
        try:
            tag = self._routes.tag_of(message)
            return None if tag is None else self._format.locate(tag)
        except SHAPE_ERRORS:
            return None

    def take_over(self, other: "Normalizer") -> None:
        """Know what the numbers of messages stand for that another one was told."""
        self._routes.announced |= other._routes.announced

    def _route(self, tag: str) -> Route:
        handlers = [handler for mapper in self._mappers if (handler := mapper.handler(tag))]
        # Only neighbours share a decoded message: records come out in the order of the mappers.
        steps = [
            (_decoder(struct), _in_turn([handle for _, handle in group]))
            for struct, group in groupby(handlers, itemgetter(0))
        ]
        if len(steps) > 1:
            return bytes, _in_turn([_decoding(*step) for step in steps])
        return steps[0] if steps else ()


def _decoder(struct: Any) -> Decode:
    return struct.decode if isinstance(struct, TextLevels) else decoder_of(struct)


def _in_turn(maps: Sequence[Map]) -> Map:
    """Return a function that calls some others, in order."""
    if len(maps) == 1:
        return maps[0]

    def map_in_turn(message: Any, local: str, emit: Emit) -> None:
        for each in maps:
            each(message, local, emit)

    return map_in_turn


def _decoding(decode: Decode, map_decoded: Map) -> Map:
    """Return a function that takes a message as it was received."""
    return lambda message, local, emit: map_decoded(decode(message), local, emit)
