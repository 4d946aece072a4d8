"""From raw lines to records, a chunk at a time."""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec

from tardis_machine.exchanges.lines import LOCAL_DIGITS, MESSAGE_START
from tardis_machine.exchanges.spec import Emit, Mapper, WireFormat
from tardis_machine.exchanges.tags import TagTable
from tardis_machine.model.errors import MappingError

SHOWN_BYTES = 200
"""How much of a message that cannot be mapped is shown."""

SHAPE_ERRORS = (
    *(MappingError, msgspec.DecodeError, ValueError, TypeError),
    *(AttributeError, LookupError, ArithmeticError),
)
"""What handlers and decoders raise for messages that do not have the documented shape."""

Route: TypeAlias = tuple[tuple[Callable[[bytes], Any], tuple[Callable[..., None], ...]], ...]
"""Decoders of one tag, each with the mappers that read what it returns."""


def mapping_error(exchange: str, received: bytes, error: Exception) -> MappingError:
    """Describe a message that cannot be mapped: whose it is, what is wrong, how it starts."""
    shown = received[:SHOWN_BYTES].decode(errors="replace")
    reason = str(error).rstrip(".")
    return MappingError(f"Cannot map a message of {exchange}: {reason}. Received: {shown}")


class Normalizer:
    """Maps the messages of one connection with a fixed set of mappers."""

    def __init__(self, exchange: str, wire_format: WireFormat, mappers: Sequence[Mapper]) -> None:
        self._exchange = exchange
        self._mappers = mappers
        self._decoders: dict[Any, Callable[[bytes], Any]] = {}
        self._routes: TagTable[Route] = TagTable(wire_format.tag, self._route, ())

    def map_lines(self, lines: Sequence[bytes], emit: Emit) -> None:
        """Emit the records of recorded lines, in order.

        Raises:
            MappingError: for the first line that is not the documented JSON. What came before it
                was emitted.
        """
        routes = self._routes.known
        line = b""
        try:
            for line, key in zip(lines, self._routes.keys(lines), strict=True):
                route = routes.get(key)
                if route is None:
                    route = self._routes.answer(line[MESSAGE_START:])
                if route:
                    local = line[:LOCAL_DIGITS].decode() + "Z"
                    for decode, maps in route:
                        message = decode(line[MESSAGE_START:])
                        for map_message in maps:
                            map_message(message, local, emit)
        except SHAPE_ERRORS as error:
            raise mapping_error(self._exchange, line, error) from error

    def map_message(self, message: bytes, local: str, emit: Emit) -> None:
        """Emit the records of one live message that arrived at `local`, as wire text."""
        try:
            for decode, maps in self._routes.answer(message):
                decoded = decode(message)
                for map_decoded in maps:
                    map_decoded(decoded, local, emit)
        except SHAPE_ERRORS as error:
            raise mapping_error(self._exchange, message, error) from error

    def _route(self, tag: str) -> Route:
        handlers = [handler for mapper in self._mappers if (handler := mapper.handler(tag))]
        # Only neighbours share a decoded message: records come out in the order of the mappers.
        return tuple(
            (self._decoder(struct), tuple(handle for _, handle in group))
            for struct, group in groupby(handlers, itemgetter(0))
        )

    def _decoder(self, struct: Any) -> Callable[[bytes], Any]:
        decoder = self._decoders.get(struct)
        if decoder is None:
            # Not strict: venues write many numbers as text.
            decoder = msgspec.json.Decoder(struct, strict=False).decode
            self._decoders[struct] = decoder
        return decoder
