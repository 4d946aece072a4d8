"""The live feed, which speaks v2 only."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.spec import Feed, FeedConnection
from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import Filter

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


def connections(filters: Sequence[Filter]) -> list[FeedConnection]:
    """Ask for everything on one socket, channel by channel."""
    frames = tuple(
        subscribe_frame(entry)
        for entry in optimize_filters(filters)
        if entry.channel not in RECORDED_ONLY
    )
    return [FeedConnection(url=URL, frames=frames)] if frames else []


def subscribe_frame(wanted: Filter) -> str:
    """Write the subscribe message of a channel."""
    params: dict[str, Any] = {"channel": wanted.channel}
    if wanted.channel != INSTRUMENTS:
        params["symbol"] = wanted.symbols
        if not wanted.symbols:
            raise RequestError(
                f"kraken does not stream {wanted.channel!r} of all symbols: name those you want."
            )
    params |= PARAMETERS.get(wanted.channel, {})
    return msgspec.json.encode({"method": "subscribe", "params": params}).decode()


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"method": "subscribe", "params": {"channel": "book", "symbol": ["BTC/USD"]}}`."""
    if message.get("method") != "subscribe":
        return None
    params = message["params"]
    symbols = params.get("symbol")
    return [Filter(params["channel"], None if symbols is None else tuple(symbols))]


FEED = Feed(
    connections=connections,
    read_subscribe=read_subscribe,
    recorded_only=RECORDED_ONLY,
    whole_market=frozenset({INSTRUMENTS}),
)
