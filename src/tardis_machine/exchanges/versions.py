"""What changed on a date: mappers and wire formats that serve a time, and the cuts between."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from tardis_machine.exchanges.feeds import Feed, ReadSubscribe
from tardis_machine.exchanges.filters import merge_filters
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import (
    Exchange,
    Mapper,
    Symbols,
    Venue,
    Version,
    WireFormat,
)
from tardis_machine.model.errors import UnsupportedError, nearest_hint
from tardis_machine.model.requests import Filter, ReplayRange, as_client_wrote
from tardis_machine.model.time import MINUTE_US

RECENT_US = 3 * MINUTE_US
"""A time that is less than this ago is served by the newest version."""

NORMALIZERS = {
    "trade": "normalizeTrades",
    "book_change": "normalizeBookChanges",
    "derivative_ticker": "normalizeDerivativeTickers",
    "liquidation": "normalizeLiquidations",
    "option_summary": "normalizeOptionsSummary",
    "book_ticker": "normalizeBookTickers",
}
"""What existing clients know the mapping to each data type as; error texts name it."""


def check_supported(exchange: Any, data_types: Iterable[str]) -> None:
    """Refuse plain data types that an exchange does not have, or has no mappers for."""
    known = REGISTRY.get(exchange) if isinstance(exchange, str) else None
    for data_type in data_types:
        if known is None or data_type not in known.data_types:
            name = as_client_wrote(exchange)
            text = f"{NORMALIZERS[data_type]}: {name} not supported"
            is_typo = known is None and isinstance(exchange, str)
            hint = nearest_hint(name, REGISTRY) if is_typo else ""
            raise UnsupportedError(f"{text}.{hint}" if hint else text)
        venue_of(known)


def venue_of(exchange: Exchange) -> Venue:
    """Return what the venue's module provides, or say that it has no mappers."""
    if exchange.load_venue is None:
        mapped = [name for name, known in REGISTRY.items() if known.has_mappers]
        raise UnsupportedError(
            f"{exchange.id} has no mappers yet: it can be replayed raw, but not normalized. "
            f"Exchanges with mappers: {', '.join(mapped)}."
        )
    return exchange.load_venue()


NO_CREDENTIALS: Mapping[str, str] = MappingProxyType({})


def version_at(
    exchange: Exchange,
    data_type: str,
    at_us: int,
    now_us: int,
    *,
    is_live: bool = False,
    environment: Mapping[str, str] = NO_CREDENTIALS,
) -> Version:
    """Return the version that serves a data type at a time."""
    check_supported(exchange.id, [data_type])
    venue = venue_of(exchange)
    versions = venue.versions[data_type]
    if is_live or now_us - at_us < RECENT_US:
        return venue.adapt(versions[-1], environment)
    version = versions[bisect_right(exchange.switches_us.get(data_type, ()), at_us)]
    return venue.adapt(version, environment)


def live_mappers(
    exchange: Exchange, data_types: Iterable[str], environment: Mapping[str, str]
) -> dict[str, Mapper]:
    """Make a fresh mapper for each data type of a live connection, which misses no update."""
    mappers = {}
    for name in data_types:
        version = version_at(exchange, name, 0, 0, is_live=True, environment=environment)
        mappers[name] = version.mapper(exchange.id, is_live=True)
        mappers[name].checks_sequence = True
    return mappers


def live_filters(
    exchange: Exchange, data_type: str, symbols: Symbols, environment: Mapping[str, str]
) -> list[Filter]:
    """Return the raw filters that a data type needs live."""
    version = version_at(exchange, data_type, 0, 0, is_live=True, environment=environment)
    return version.filters_for(symbols, is_live=True)


def feed_of(exchange: Exchange) -> Feed:
    """Return how an exchange is streamed, or say that it cannot be."""
    feed = venue_of(exchange).feed
    if feed is None:
        raise UnsupportedError(
            f"{exchange.id} cannot be streamed live: it is closed. Its recordings can be replayed."
        )
    return feed


def format_at(exchange: Exchange, at_us: int, now_us: int, *, is_live: bool = False) -> WireFormat:
    """Return the wire format of messages at a time."""
    formats = venue_of(exchange).formats
    if is_live or now_us - at_us < RECENT_US:
        return formats[-1]
    return formats[bisect_right(exchange.format_switches_us, at_us)]


def subscribe_readers(exchange: Exchange, at_us: int, now_us: int) -> list[ReadSubscribe]:
    """Return what understands the native subscribe messages of a replay that starts at a time.

    A feed's own form comes first: it is that of today's clients, and only of the newest format.
    """
    venue, wire_format = venue_of(exchange), format_at(exchange, at_us, now_us)
    readers = [wire_format.read_subscribe]
    is_newest = wire_format is venue.formats[-1]
    if venue.feed is not None and is_newest and not wire_format.replays_whole_feed:
        readers.insert(0, venue.feed.read_subscribe)
    return readers


def make_normalizer(
    exchange: Exchange, data_types: Iterable[str], at_us: int, now_us: int, *, is_live: bool
) -> Normalizer:
    """Make what maps the messages of a connection that starts at a time."""
    wire_format = format_at(exchange, at_us, now_us, is_live=is_live)
    mappers = make_mappers(exchange, data_types, at_us, now_us, is_live=is_live)
    return Normalizer(exchange.id, wire_format, mappers)


def make_mappers(
    exchange: Exchange, data_types: Iterable[str], at_us: int, now_us: int, *, is_live: bool
) -> list[Mapper]:
    """Make a fresh mapper for each data type, in their order, for a connection that starts."""
    versions = [version_at(exchange, name, at_us, now_us, is_live=is_live) for name in data_types]
    return [version.mapper(exchange.id, is_live=is_live) for version in versions]


def replay_filters(
    exchange: Exchange,
    data_types: Iterable[str],
    symbols: Symbols,
    at_us: int,
    now_us: int,
    *,
    is_live: bool = False,
    environment: Mapping[str, str] = NO_CREDENTIALS,
) -> tuple[Filter, ...]:
    """Return the merged raw filters that these data types need at a time."""
    versions = [
        version_at(exchange, name, at_us, now_us, is_live=is_live, environment=environment)
        for name in data_types
    ]
    return merge_filters(
        entry for version in versions for entry in version.filters_for(symbols, is_live=is_live)
    )


def switches_us(exchange: Exchange, data_types: Iterable[str]) -> list[int]:
    """Return the instants at which the mappers of these data types are replaced, ascending."""
    switches = {us for name in data_types for us in exchange.switches_us.get(name, ())}
    return sorted(switches.union(exchange.format_switches_us))


def segments(
    exchange: Exchange, data_types: Iterable[str], range_: ReplayRange
) -> tuple[ReplayRange, ...]:
    """Cut a range wherever mappers are replaced inside it."""
    cuts = [
        switch_us
        for switch_us in switches_us(exchange, data_types)
        if range_.start_us < switch_us < range_.end_us
    ]
    bounds: Sequence[int] = [range_.start_us, *cuts, range_.end_us]
    return tuple(ReplayRange(start_us, end_us) for start_us, end_us in pairwise(bounds))
