"""From raw lines to records, a chunk at a time."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec

from tardis_machine.exchanges.spec import Emit, Exchange, Mapper
from tardis_machine.exchanges.tags import TagTable
from tardis_machine.model.errors import MappingError

LOCAL_DIGITS = 26
"""How much of a line's timestamp reaches the output: the seventh digit is cut."""

MESSAGE_START = 29
"""Where the message of a recorded line starts, after 28 characters of time and a blank."""

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

    def __init__(self, exchange: Exchange, mappers: Sequence[Mapper]) -> None:
        assert exchange.venue is not None
        self._exchange = exchange.id
        self._mappers = mappers
        self._decoders: dict[Any, Callable[[bytes], Any]] = {}
        self._routes: TagTable[Route] = TagTable(exchange.venue.tag, self._route, ())
        self._tag_start = len(exchange.venue.tag.prefix)

    def map_lines(self, lines: Iterable[bytes], emit: Emit) -> None:
        """Emit the records of recorded lines, in order.

        Raises:
            MappingError: for the first line that is not the documented JSON. What came before it
                was emitted.
        """
        routes = self._routes.known
        tag_start = MESSAGE_START + self._tag_start
        line = b""
        try:
            for line in lines:
                route = routes.get(line[MESSAGE_START : line.find(b'"', tag_start)])
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
            route = self._routes.known.get(message[: message.find(b'"', self._tag_start)])
            if route is None:
                route = self._routes.answer(message)
            for decode, maps in route:
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
