"""From raw lines to records, a chunk at a time."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from tardis_machine.exchanges.spec import Emit, Exchange, Mapper
from tardis_machine.model.errors import MappingError

LOCAL_DIGITS = 26
"""How much of a line's timestamp reaches the output: the seventh digit is cut."""

MESSAGE_START = 29
"""Where the message of a recorded line starts, after 28 characters of time and a blank."""

MAX_ROUTES = 100_000
"""Distinct tags remembered; a feed with more of them is routed anew."""

Route: TypeAlias = tuple[tuple[Callable[[bytes], Any], tuple[Callable[..., None], ...]], ...]
"""Decoders of one tag, each with the mappers that read what it returns."""


class Normalizer:
    """Maps the messages of one connection with a fixed set of mappers."""

    def __init__(self, exchange: Exchange, mappers: Sequence[Mapper]) -> None:
        assert exchange.tag is not None
        self._mappers = mappers
        self._tag = exchange.tag
        self._tag_decoder = msgspec.json.Decoder(exchange.tag.message)
        self._decoders: dict[Any, Callable[[bytes], Any]] = {}
        self._routes: dict[bytes, Route] = {}
        self._tag_start = MESSAGE_START + len(exchange.tag.prefix)

    def map_lines(self, lines: Iterable[bytes], emit: Emit) -> None:
        """Emit the records of recorded lines, in order."""
        routes = self._routes
        tag_start = self._tag_start
        for line in lines:
            route = routes.get(line[MESSAGE_START : line.find(b'"', tag_start)])
            if route is None:
                route = self._find_route(line[MESSAGE_START:])
            if not route:
                continue
            local = str(line[:LOCAL_DIGITS], "ascii") + "Z"
            try:
                for decode, maps in route:
                    message = decode(line[MESSAGE_START:])
                    for map_message in maps:
                        map_message(message, local, emit)
            except (msgspec.DecodeError, ValueError, KeyError, IndexError) as error:
                raise MappingError(str(error)) from error

    def map_message(self, message: bytes, local: str, emit: Emit) -> None:
        """Emit the records of one live message."""
        for decode, maps in self._find_route(message):
            decoded = decode(message)
            for map_message in maps:
                map_message(decoded, local, emit)

    def _find_route(self, message: bytes) -> Route:
        prefix = self._tag.prefix
        if not message.startswith(prefix):
            tag = self._tag.read(self._tag_decoder.decode(message))
            return self._route(tag) if tag is not None else ()
        end = message.find(b'"', len(prefix))
        route = self._route(str(message[len(prefix) : end], "utf-8"))
        if len(self._routes) >= MAX_ROUTES:
            self._routes.clear()
        self._routes[message[:end]] = route
        return route

    def _route(self, tag: str) -> Route:
        maps_by_message: dict[Any, list[Callable[..., None]]] = {}
        for mapper in self._mappers:
            handler = mapper.handler(tag)
            if handler is not None:
                maps_by_message.setdefault(handler[0], []).append(handler[1])
        return tuple(
            (self._decoder(message), tuple(maps)) for message, maps in maps_by_message.items()
        )

    def _decoder(self, message: Any) -> Callable[[bytes], Any]:
        decoder = self._decoders.get(message)
        if decoder is None:
            # Not strict: venues write many numbers as text.
            decoder = msgspec.json.Decoder(message, strict=False).decode
            self._decoders[message] = decoder
        return decoder
