"""How much one request may ask for."""

from collections.abc import Sequence
from typing import Any

from tardis_machine.model.data_types import BookSnapshotSpec
from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import NormalizedReplayRequest, ReplayRequest, StreamRequest
from tardis_machine.server.settings import ServerSettings
from tardis_machine.session.live.plan import StreamPlan
from tardis_machine.session.plan import NormalizedPlan

SYMBOLS_PER_STREAM = 100
BYTES_PER_STREAM = 64 * 1024
"""A request of more symbols or bytes than these holds memory like several streams."""


class RequestTooLargeError(RequestError):
    """A request asks for more than a setting allows."""

    def __init__(self, what: str, received: int, allowed: int, setting: str) -> None:
        super().__init__(
            f"The request has {received} {what}, at most {allowed} are allowed. "
            f"Please send several requests, or raise --{setting} of the server."
        )


def check_normalized_size(
    requests: Sequence[NormalizedReplayRequest] | Sequence[StreamRequest],
    settings: ServerSettings,
) -> None:
    """Refuse a normalized request that is too large to be planned."""
    _check("entries", len(requests), settings.max_request_entries, "max-request-entries")
    types = max((_count(request.data_types) for request in requests), default=0)
    _check(
        "data types in one entry",
        types,
        settings.max_request_data_types,
        "max-request-data-types",
    )
    check_symbols(symbols_of(requests), settings)


def check_raw_size(request: ReplayRequest, settings: ServerSettings) -> None:
    """Refuse a raw request that is too large to be planned; a channel counts as a symbol."""
    check_symbols(raw_symbols_of(request), settings)


def symbols_of(requests: Sequence[NormalizedReplayRequest] | Sequence[StreamRequest]) -> int:
    """Return how many symbols the entries of a request name."""
    return sum(_count(request.symbols) for request in requests)


def raw_symbols_of(request: ReplayRequest) -> int:
    """Return how many channels and symbols a raw request names."""
    filters = request.filters if isinstance(request.filters, list) else []
    symbols = sum(_count(entry.get("symbols")) for entry in filters if isinstance(entry, dict))
    return len(filters) + symbols


def streams_of(*, entries: int = 1, symbols: int = 0, size_bytes: int = 0) -> int:
    """Return how many streams a request counts as, by what it holds while it is served."""
    by_symbols = -(-symbols // SYMBOLS_PER_STREAM)
    return max(1, entries, by_symbols, -(-size_bytes // BYTES_PER_STREAM))


def check_levels(plan: NormalizedPlan | StreamPlan, settings: ServerSettings) -> None:
    """Refuse snapshots whose levels, added up over all that were asked for, are too many."""
    levels = sum(
        spec.depth
        for entry in plan.entries
        for spec in entry.computed
        if isinstance(spec, BookSnapshotSpec)
    )
    _check("levels of snapshots", levels, settings.max_request_levels, "max-request-levels")


def check_symbols(received: int, settings: ServerSettings) -> None:
    """Refuse more symbols than a request may name."""
    _check("symbols", received, settings.max_request_symbols, "max-request-symbols")


def _check(what: str, received: int, allowed: int, setting: str) -> None:
    if received > allowed:
        raise RequestTooLargeError(what, received, allowed, setting)


def _count(value: Any) -> int:
    return len(value) if isinstance(value, list | tuple) else 0
