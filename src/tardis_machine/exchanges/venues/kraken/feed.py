"""The live feed, which speaks v2 only."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    Verdict,
    streamed,
    symbols_of,
)
from tardis_machine.model.requests import Filter

EXCHANGE = "kraken"
URL = "wss://ws.kraken.com/v2"

RECORDED_ONLY = frozenset({"spread"})
"""Channels of v1 alone."""

INSTRUMENTS = "instrument"
"""Brings all symbols, whichever are asked for."""

PARAMETERS: dict[str, dict[str, Any]] = {
    "book": {"depth": 1000},
    "ticker": {"event_trigger": "bbo"},
    INSTRUMENTS: {"include_tokenized_assets": True},
}
"""What a channel's subscription says besides its symbols."""


class Header(msgspec.Struct, rename={"error_message": "errorMessage"}):
    """What tells heartbeats and errors from other messages."""

    channel: str | None = None
    event: str | None = None
    success: bool | None = None
    error_message: str | None = None


_header = msgspec.json.Decoder(Header)


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Ask for everything on one socket, channel by channel."""
    wanted = streamed(filters, RECORDED_ONLY)
    if not wanted:
        return []
    url = access.url(EXCHANGE, URL)
    return [FeedConnection(url=url, filters=wanted, frames=tuple(map(subscribe_frame, wanted)))]


def subscribe_frame(wanted: Filter, method: str = "subscribe") -> str:
    """Write the subscribe message of a channel."""
    params: dict[str, Any] = {"channel": wanted.channel}
    if wanted.channel != INSTRUMENTS:
        params["symbol"] = symbols_of(EXCHANGE, wanted)
    params |= PARAMETERS.get(wanted.channel, {})
    return msgspec.json.encode({"method": method, "params": params}).decode()


def unsubscribe(filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return a frame per channel that leaves its symbols."""
    return tuple(subscribe_frame(entry, "unsubscribe") for entry in filters)


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"method": "subscribe", "params": {"channel": "book", "symbol": ["BTC/USD"]}}`."""
    if message.get("method") != "subscribe":
        return None
    params = message["params"]
    symbols = params.get("symbol")
    return [Filter(params["channel"], None if symbols is None else tuple(symbols))]


def judge(message: bytes) -> Verdict:
    """Find heartbeats and refusals."""
    header = _header.decode(message)
    if header.success is False or header.error_message is not None:
        return Verdict.ERROR
    is_heartbeat = "heartbeat" in (header.channel, header.event)
    return Verdict.HEARTBEAT if is_heartbeat else Verdict.IGNORED


FEED = Feed(
    connections=connections,
    read_subscribe=read_subscribe,
    judge=judge,
    books=BookSequence.CHECKED,
    unsubscribe=unsubscribe,
    recorded_only=RECORDED_ONLY,
    whole_market=frozenset({INSTRUMENTS}),
)
