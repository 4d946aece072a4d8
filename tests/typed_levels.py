"""Mappers whose messages msgspec decodes, levels to numbers: what compiled code must equal."""

from functools import cache
from typing import Any

import msgspec

from tardis_machine.exchanges.level_texts import TextLevels
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.spec import Exchange, Handler, Mapper
from tardis_machine.exchanges.versions import format_at, make_mappers
from tests.golden.cases import NOW_US, recorded_us


class ByMsgspec(TextLevels):
    """Stands for a struct whose messages are left to msgspec."""

    def __init__(self, struct: Any) -> None:
        super().__init__(struct, "", {})
        self.decode = msgspec.json.Decoder(struct, strict=False).decode


by_msgspec = cache(ByMsgspec)


class TypedLevels(Mapper):
    """Leaves messages to msgspec, and names the struct with numbers where one has texts."""

    names_texts = False
    """Whether the mapper named one with texts."""

    def handler(self, tag: str) -> Handler | None:
        """Handle what the mapper handles."""
        found = super().handler(tag)
        if not found:
            return found
        struct, handle = found
        if isinstance(struct, TextLevels):
            self.names_texts = True
            struct = struct.struct
        return by_msgspec(struct), handle


def with_typed_levels(mapper: type[Mapper]) -> type[TypedLevels]:
    """Return the same mapper with levels as numbers."""
    return type(mapper.__name__, (TypedLevels, mapper), {})


def typed_mappers(exchange: Exchange, line: bytes) -> list[TypedLevels]:
    """Make mappers of all data types for a connection that starts with this line."""
    mappers = make_mappers(exchange, exchange.data_types, recorded_us(line), NOW_US, is_live=False)
    return [with_typed_levels(type(mapper))(exchange.id, is_live=False) for mapper in mappers]


def typed_normalizer(exchange: Exchange, line: bytes, mappers: list[TypedLevels]) -> Normalizer:
    """Make what maps with them."""
    return Normalizer(exchange.id, format_at(exchange, recorded_us(line), NOW_US), mappers)
