"""From a stream request to a plan: feeds, mappers, computed types and what reaches the client."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tardis_machine.exchanges.filters import accepted_symbols
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.versions import feed_of, replay_filters
from tardis_machine.model.data_types import ComputedSpec, source_types
from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import Filter, StreamRequest, check_exchange
from tardis_machine.session.plan import (
    OutputFilter,
    check_entry_types,
    check_symbols,
    check_type_names,
    is_known_type,
    output_filter,
)


class StreamEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One checked entry of a stream request."""

    exchange: Exchange
    source_types: tuple[str, ...]
    filters: tuple[Filter, ...]
    computed: tuple[ComputedSpec, ...]
    symbols: frozenset[str] | None
    """Symbols of records that pass; None for all."""

    requested: tuple[str, ...] | None
    """Symbols as the client wrote them."""

    with_errors: bool = False
    timeout_seconds: float | None = None
    """How long the client lets a connection be without data; None when it did not say."""


class StreamPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A checked `/ws-stream-normalized` request."""

    entries: tuple[StreamEntry, ...]
    output: OutputFilter
    ignored_types: tuple[str, ...] = ()

    @property
    def exchanges(self) -> set[str]:
        """Return the exchanges this plan streams."""
        return {entry.exchange.id for entry in self.entries}


def plan_stream(requests: Sequence[StreamRequest], environment: Mapping[str, str]) -> StreamPlan:
    """Check every entry of a stream request; credentials in the environment choose channels."""
    names = [check_type_names(request.data_types) for request in requests]
    computed = [
        check_entry_types(request.exchange, types)
        for request, types in zip(requests, names, strict=True)
    ]
    return StreamPlan(
        entries=tuple(
            _plan_entry(request, types, specs, environment)
            for request, types, specs in zip(requests, names, computed, strict=True)
        ),
        output=output_filter(requests),
        ignored_types=tuple(name for types in names for name in types if not is_known_type(name)),
    )


def _plan_entry(
    request: StreamRequest,
    names: Sequence[str],
    specs: tuple[ComputedSpec, ...],
    environment: Mapping[str, str],
) -> StreamEntry:
    exchange = REGISTRY[check_exchange(request.exchange, tuple(REGISTRY))]
    feed_of(exchange)
    symbols = check_symbols(request.symbols)
    sources = source_types(names)
    filters = replay_filters(
        exchange, sources, symbols, 0, 0, is_live=True, environment=environment
    )
    return StreamEntry(
        exchange=exchange,
        source_types=sources,
        filters=filters,
        computed=specs,
        symbols=accepted_symbols(symbols, filters),
        requested=symbols,
        with_errors=request.with_error_messages is True,
        timeout_seconds=check_timeout(request.timeout_interval_ms),
    )


def check_timeout(value: Any) -> float | None:
    """Return an explicit timeout in seconds; None when the client gave none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise RequestError(
            f'Invalid "timeoutIntervalMS" argument: {value}. '
            "Please provide milliseconds, or 0 to never call a connection stale."
        )
    return value / 1000
