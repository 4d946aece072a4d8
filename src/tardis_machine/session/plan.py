"""From a request to a plan: sources, mappers, computed types and what reaches the client.

Checks run in the order that gives the texts existing clients match on: data types of every entry
first, then exchange, dates and filters.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec

from tardis_machine.exchanges.filters import accepted_symbols
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.versions import (
    check_supported,
    replay_filters,
    segments,
)
from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.data_types import (
    PLAIN_TYPES,
    ComputedSpec,
    computed_specs,
    empty_types,
    output_type,
    source_types,
)
from tardis_machine.model.errors import RequestError
from tardis_machine.model.records import (
    RECORD_TYPES,
    BlankTrade,
    EncodedBookChange,
    EncodedBookSnapshot,
    Record,
)
from tardis_machine.model.requests import (
    Filter,
    NormalizedReplayRequest,
    ReplayRange,
    ReplayRequest,
    as_client_wrote,
    check_exchange,
    check_filters,
    check_range,
)
from tardis_machine.model.texts import shortened

DEFAULT_WAIT_MINUTES = 30
"""How long after its time data is taken to be available, when a client asks to wait."""

MAX_SPEED = 1e9
MIN_WAIT_MINUTES = 6
MAX_WAIT_MINUTES = 1440


class ArchiveOptions(msgspec.Struct, frozen=True):
    """How the archive is read for one request."""

    api_key: str | None = None
    auto_cleanup: bool = False
    wait_minutes: float | None = None


class RawPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A checked `/replay` request."""

    exchange: Exchange
    filters: tuple[Filter, ...]
    range: ReplayRange
    archive: ArchiveOptions
    with_disconnects: bool = False
    is_exact: bool = False
    speed: float | None = None


class Segment(msgspec.Struct, frozen=True):
    """A part of a range that one generation of mappers serves."""

    range: ReplayRange
    filters: tuple[Filter, ...]


class EntryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One checked entry of a normalized request."""

    exchange: Exchange
    range: ReplayRange
    archive: ArchiveOptions
    source_types: tuple[str, ...]
    segments: tuple[Segment, ...]
    computed: tuple[ComputedSpec, ...]
    symbols: frozenset[str] | None
    """Symbols of records that pass; None for all."""

    asked_symbols: tuple[str, ...] = ()
    """Symbols as the client wrote them."""

    with_disconnects: bool = False
    is_exact: bool = False
    trim_levels: bool = False
    starts_over_daily: bool = False
    """Every 00:00 UTC begins with fresh mappers and computed types."""

    @property
    def key(self) -> Hashable:
        """Return what only equal entries have in common."""
        return self.exchange.id, *msgspec.structs.astuple(self)[1:]


class OutputFilter(msgspec.Struct, frozen=True):
    """Which record types reach the client, per exchange."""

    types: dict[str, frozenset[str]]
    with_disconnects: bool

    def passes(self, exchange: str, type_: str) -> bool:
        """Say whether records of this type reach the client."""
        if type_ == "disconnect" and self.with_disconnects:
            return True
        return type_ in self.types.get(exchange, ())

    def classes(self, exchange: str) -> frozenset[type[Record]]:
        """Return the record classes of an exchange that reach the client."""
        return frozenset(
            record_class
            for type_, record_classes in _RECORD_CLASSES.items()
            if self.passes(exchange, type_)
            for record_class in record_classes
        )


class NormalizedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A checked `/replay-normalized` request."""

    entries: tuple[EntryPlan, ...]
    output: OutputFilter
    ignored_types: tuple[str, ...] = ()
    """Unknown names: the server ignores them, with a warning."""

    empty_types: tuple[str, ...] = ()
    """Names that ask for nothing, such as `trade_bar_0s`."""

    speed: float | None = None

    @property
    def exchanges(self) -> set[str]:
        """Return the exchanges this plan reads."""
        return {entry.exchange.id for entry in self.entries}


_RECORD_CLASSES: dict[str, tuple[type[Record], ...]] = {
    **{name: (record_class,) for name, record_class in RECORD_TYPES.items()},
    "trade": (RECORD_TYPES["trade"], BlankTrade),
    "book_change": (RECORD_TYPES["book_change"], EncodedBookChange),
    "book_snapshot": (RECORD_TYPES["book_snapshot"], EncodedBookSnapshot),
    "disconnect": (Disconnect,),
    "error": (FeedError,),
}


def plan_raw(request: ReplayRequest) -> RawPlan:
    """Check a raw request."""
    exchange = REGISTRY[check_exchange(request.exchange, tuple(REGISTRY))]
    is_exact = request.exact_range is True
    range_ = check_range(request.start, request.end, is_exact=is_exact)
    return RawPlan(
        exchange=exchange,
        filters=check_filters(request.filters, exchange.channels),
        range=range_,
        archive=_archive_options(request),
        with_disconnects=request.with_disconnects is True,
        is_exact=is_exact,
        speed=_check_speed(request.speed),
    )


def plan_normalized(requests: Sequence[NormalizedReplayRequest], now_us: int) -> NormalizedPlan:
    """Check every entry of a normalized request."""
    names = [check_type_names(request.data_types) for request in requests]
    computed = [
        check_entry_types(request.exchange, types)
        for request, types in zip(requests, names, strict=True)
    ]
    return NormalizedPlan(
        entries=tuple(
            _plan_entry(request, types, specs, now_us)
            for request, types, specs in zip(requests, names, computed, strict=True)
        ),
        output=output_filter(requests),
        ignored_types=tuple(name for types in names for name in types if not is_known_type(name)),
        empty_types=tuple(name for types in names for name in empty_types(types)),
        speed=_common_speed(requests),
    )


def output_filter(requests: Sequence[Any]) -> OutputFilter:
    """Return what reaches the client: per exchange the union of the types of its entries."""
    types: dict[str, set[str]] = {}
    for request in requests:
        types.setdefault(request.exchange, set()).update(map(output_type, request.data_types))
    return OutputFilter(
        {exchange: frozenset(names) for exchange, names in types.items()},
        any(request.with_disconnect_messages for request in requests),
    )


def check_type_names(value: Any) -> tuple[str, ...]:
    """Return the data types of an entry as names."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise RequestError(
            f'Invalid "dataTypes" argument: {shortened(str(value))}. '
            "Please provide array of data type strings."
        )
    return tuple(value)


def check_entry_types(exchange: Any, names: Sequence[str]) -> tuple[ComputedSpec, ...]:
    """Check that the exchange has mappers for what was asked, and parse computed types."""
    sources = source_types(names)
    check_supported(exchange, sources)
    specs = tuple(computed_specs(names))
    if not sources:
        raise RequestError("Can't normalize data without any normalizers provided")
    return specs


def _plan_entry(
    request: NormalizedReplayRequest,
    names: Sequence[str],
    specs: tuple[ComputedSpec, ...],
    now_us: int,
) -> EntryPlan:
    exchange = REGISTRY[check_exchange(request.exchange, tuple(REGISTRY))]
    is_exact = request.exact_range is True
    range_ = check_range(request.start, request.end, is_exact=is_exact)
    symbols = check_symbols(request.symbols)
    sources = source_types(names)
    parts = tuple(
        Segment(part, replay_filters(exchange, sources, symbols, part.start_us, now_us))
        for part in segments(exchange, sources, range_)
    )
    native = [entry for part in parts for entry in part.filters]
    return EntryPlan(
        exchange=exchange,
        range=range_,
        archive=_archive_options(request),
        source_types=sources,
        segments=parts,
        computed=specs,
        symbols=accepted_symbols(symbols, native),
        asked_symbols=symbols or (),
        with_disconnects=request.with_disconnect_messages is True,
        is_exact=is_exact,
        trim_levels=request.trim_levels is True,
    )


def check_symbols(value: Any) -> tuple[str, ...] | None:
    """Return the symbols of an entry, None for all."""
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise RequestError(
            f'Invalid "symbols" argument: {shortened(str(value))}. '
            "Please provide array of symbol strings."
        )
    return tuple(value)


def _archive_options(request: ReplayRequest | NormalizedReplayRequest) -> ArchiveOptions:
    wait = request.wait_when_data_not_yet_available
    minutes: float | None = None
    if wait is True:
        minutes = DEFAULT_WAIT_MINUTES
    elif isinstance(wait, int | float) and wait:
        if not wait <= MAX_WAIT_MINUTES:
            raise RequestError(
                f'Invalid "waitWhenDataNotYetAvailable" argument: {as_client_wrote(wait)}. Please '
                f"provide true, or a number of minutes up to {MAX_WAIT_MINUTES}."
            )
        minutes = max(float(wait), MIN_WAIT_MINUTES)
    return ArchiveOptions(request.api_key, request.auto_cleanup is True, minutes)


def _check_speed(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_SPEED:
        raise RequestError(
            f'Invalid "speed" argument: {shortened(str(value))}. Please provide a number above 0, '
            "up to a billion: 1 is recorded speed, 2 twice as fast."
        )
    return float(value)


def _common_speed(requests: Sequence[NormalizedReplayRequest]) -> float | None:
    speeds = {_check_speed(request.speed) for request in requests}
    if len(speeds) > 1:
        raise RequestError(
            'Invalid "speed" argument: entries of one request are replayed together. '
            "Please provide the same speed in each."
        )
    return speeds.pop() if speeds else None


def is_known_type(name: str) -> bool:
    """Say whether a name is that of a data type."""
    return name in PLAIN_TYPES or name == "disconnect" or output_type(name) != name
