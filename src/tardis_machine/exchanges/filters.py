"""Raw filters: merged, put into the form the data API and the cache share, and matched.

Two filters for one channel become one. When only one of them names symbols, the result names
those: "all symbols" plus "X" narrows to X. Cache folders are named after the result, so this
is part of the contract.
"""

import hashlib
from collections.abc import Iterable
from urllib.parse import quote

import msgspec

from tardis_machine.model.requests import Filter

_URI_COMPONENT_SAFE = "!*'()"

_encode = msgspec.json.Encoder().encode


def merge_filters(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Join filters of equal channel, without repeated symbols, where the channel first occurs."""
    merged: dict[str, tuple[str, ...] | None] = {}
    for entry in filters:
        known = merged.get(entry.channel)
        if known is None or entry.symbols is None:
            merged[entry.channel] = entry.symbols if known is None else known
        else:
            merged[entry.channel] = tuple(dict.fromkeys(known + entry.symbols))
    return tuple(Filter(channel, symbols) for channel, symbols in merged.items())


def optimize_filters(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Merge filters and sort channels and symbols: the form that is sent and hashed."""
    merged = sorted(merge_filters(filters), key=lambda entry: _code_units(entry.channel))
    return tuple(
        Filter(entry.channel, None if entry.symbols is None else _sorted_once(entry.symbols))
        for entry in merged
    )


def filters_hash(filters: Iterable[Filter]) -> str:
    """Return the SHA-256 that names the cache folder of these filters."""
    return hashlib.sha256(_encode(optimize_filters(filters))).hexdigest()


def filters_query(filters: Iterable[Filter]) -> str | None:
    """Return the percent-encoded `filters` parameter of the data API, None without filters."""
    optimized = optimize_filters(filters)
    return quote(_encode(optimized), safe=_URI_COMPONENT_SAFE) if optimized else None


def accepted_symbols(
    requested: Iterable[str] | None, filters: Iterable[Filter]
) -> frozenset[str] | None:
    """Return the symbols of records that pass on to the client, None for all of them.

    A record passes when its symbol was asked for, as written or in upper case, or when a mapper
    put it into the raw filters in the spelling of the venue.
    """
    symbols = frozenset(requested or ())
    if not symbols:
        return None
    upper = {symbol.upper() for symbol in symbols}
    native = {symbol for entry in filters for symbol in entry.symbols or ()}
    return symbols | upper | native


def _sorted_once(symbols: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(symbols), key=_code_units))


def _code_units(text: str) -> bytes:
    # Order by UTF-16 code units, as the vendor's tools do; it differs from code points
    # only above U+FFFF.
    return text.encode("utf-16-be", "surrogatepass")
