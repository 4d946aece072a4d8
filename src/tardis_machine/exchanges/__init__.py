"""Pure knowledge of venues: channels, message shapes, and how messages become records."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from tardis_machine.exchanges import binance, bitmex, coinbase, deribit
from tardis_machine.exchanges.catalog import CATALOG
from tardis_machine.exchanges.spec import Exchange, Venue

FAMILIES = (binance, bitmex, coinbase, deribit)
"""Modules with mappers; a new one is added here."""


def _compose(venues: Mapping[str, Venue]) -> dict[str, Exchange]:
    return {name: replace(exchange, venue=venues.get(name)) for name, exchange in CATALOG.items()}


REGISTRY: Mapping[str, Exchange] = MappingProxyType(
    _compose({name: venue for family in FAMILIES for name, venue in family.VENUES.items()})
)
"""Exchange id -> everything known about it, in the order of the API."""
