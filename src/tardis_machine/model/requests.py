"""Replay and stream requests as clients send them, and their validation.

Decoding is lenient: what a client sent is kept as it came, then checked in the order that gives the
texts existing clients match on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tardis_machine.model.errors import RequestError
from tardis_machine.model.texts import shortened
from tardis_machine.model.time import floor_minute, parse_instant


class Filter(msgspec.Struct, frozen=True, omit_defaults=True):
    """One channel of a feed, for some symbols or (None) for all of them.

    A filter without a channel is what a client's subscription becomes that names an unknown one;
    `check_filters` refuses it.
    """

    channel: str = ""
    symbols: tuple[str, ...] | None = None


class ReplayRange(msgspec.Struct, frozen=True):
    """A checked range of recording time, in microseconds; the end is exclusive."""

    start_us: int
    end_us: int


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a client asks `/replay` for."""

    exchange: Any = None
    start: Any = msgspec.field(default=None, name="from")
    end: Any = msgspec.field(default=None, name="to")
    filters: Any = None
    with_disconnects: Any = False
    api_key: str | None = None
    auto_cleanup: Any = False
    wait_when_data_not_yet_available: Any = False
    exact_range: Any = False
    speed: Any = None


class NormalizedReplayRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry of what a client asks `/replay-normalized` for."""

    exchange: Any = None
    symbols: Any = None
    start: Any = msgspec.field(default=None, name="from")
    end: Any = msgspec.field(default=None, name="to")
    data_types: Any = None
    with_disconnect_messages: Any = False
    api_key: str | None = None
    auto_cleanup: Any = False
    wait_when_data_not_yet_available: Any = False
    exact_range: Any = False
    speed: Any = None
    trim_levels: Any = False


class StreamRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry of what a client asks `/ws-stream-normalized` for."""

    exchange: Any = None
    symbols: Any = None
    data_types: Any = None
    with_disconnect_messages: Any = False
    with_error_messages: Any = False
    timeout_interval_ms: Any = msgspec.field(default=None, name="timeoutIntervalMS")
    """None when the client leaves it to us to notice a dead connection."""


def as_client_wrote(value: Any) -> str:
    """Show a received value in an error text the way existing clients know it."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    return shortened(value if isinstance(value, str) else str(value))


def check_exchange(value: Any, known: Sequence[str]) -> str:
    """Return a known exchange id or refuse it with the list of all."""
    if isinstance(value, str) and value in known:
        return value
    raise RequestError(
        f'Invalid "exchange" argument: {as_client_wrote(value)}. '
        f"Please provide one of the following exchanges: {', '.join(known)}."
    )


def check_range(start: Any, end: Any, *, is_exact: bool = False) -> ReplayRange:
    """Return the range of whole minutes (or the exact one) between two date arguments."""
    start_us = _check_date("from", start)
    end_us = _check_date("to", end)
    if not is_exact:
        start_us, end_us = floor_minute(start_us), floor_minute(end_us)
    if end_us < start_us:
        raise RequestError(
            'Invalid "to" and "from" arguments combination. '
            'Please provide "to" date that is later than "from" date.'
        )
    return ReplayRange(start_us, end_us)


def _check_date(name: str, value: Any) -> int:
    instant = parse_instant(value) if isinstance(value, str) else None
    if instant is None:
        raise RequestError(
            f'Invalid "{name}" argument: {as_client_wrote(value)}. '
            "Please provide valid date string."
        )
    return instant


def check_filters(value: Any, channels: Sequence[str]) -> tuple[Filter, ...]:
    """Return raw filters whose channels the exchange has."""
    if not value:
        return ()
    if not isinstance(value, list):
        raise RequestError(
            f'Invalid "filters" argument: {as_client_wrote(value)}. Please provide array of filters'
        )
    return tuple(_check_filter(entry, channels) for entry in value)


def _check_filter(entry: Any, channels: Sequence[str]) -> Filter:
    fields: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}
    channel, symbols = fields.get("channel"), fields.get("symbols")
    if not isinstance(channel, str) or channel not in channels:
        raise RequestError(
            f'Invalid "filters[].channel" argument: {as_client_wrote(channel)}. '
            f"Please provide one of the following channels: {', '.join(channels)}."
        )
    if symbols is None:
        return Filter(channel)
    if not isinstance(symbols, list | tuple):
        raise RequestError(
            f'Invalid "filters[].symbols" argument: {as_client_wrote(symbols)}. '
            "Please provide array of symbol strings"
        )
    return Filter(channel, tuple(str(symbol) for symbol in symbols))
