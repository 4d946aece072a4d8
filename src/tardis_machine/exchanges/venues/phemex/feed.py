"""Phemex subscriptions: a frame per symbol, or one for a channel that brings all symbols."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec

from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.spec import Feed, FeedConnection
from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import Filter

URL = "wss://ws.phemex.com/"

PAUSE_SECONDS = 0.1
"""The venue accepts about twenty frames per second."""

METHODS = {
    "book": "orderbook.subscribe",
    "orderbook_p": "orderbook_p.subscribe",
    "trades": "trade.subscribe",
    "trades_p": "trade_p.subscribe",
    "market24h": "market24h.subscribe",
    "spot_market24h": "spot_market24h.subscribe",
    "perp_market24h_pack_p": "perp_market24h_pack_p.subscribe",
}
"""Channel -> how one subscribes to it."""

CHANNELS = {method: channel for channel, method in METHODS.items()}

WHOLE_MARKET = frozenset({"market24h", "spot_market24h", "perp_market24h_pack_p"})

REPLAYED_CHANNELS = frozenset({"book", "trades", "market24h"})
"""What a replay has always let clients subscribe to."""


def connections(filters: Sequence[Filter]) -> list[FeedConnection]:
    """Return one socket, with frames that are numbered from 0."""
    requests = chain.from_iterable(_requests(entry) for entry in optimize_filters(filters))
    frames = tuple(
        msgspec.json.encode({"id": number, "method": method, "params": params}).decode()
        for number, (method, params) in enumerate(requests)
    )
    return [FeedConnection(url=URL, frames=frames, pause_seconds=PAUSE_SECONDS)]


def _requests(entry: Filter) -> list[tuple[str, list[str]]]:
    method = METHODS[entry.channel]
    if entry.channel in WHOLE_MARKET:
        return [(method, [])]
    if not entry.symbols:
        raise RequestError(
            f"phemex streams {entry.channel} by symbol only: name the symbols to stream."
        )
    return [(method, [symbol]) for symbol in entry.symbols]


def read_frame(message: Any) -> list[Filter] | None:
    """Read `{"method": "orderbook_p.subscribe", "params": ["BTCUSDT", 30]}`; depths are dropped."""
    channel = CHANNELS.get(message.get("method"))
    if channel is None:
        return None
    symbols = tuple(param for param in message["params"] if isinstance(param, str))
    return [Filter(channel, symbols)]


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read any message with a method; one that a replay does not know asks for no channel.

    No replay can serve such a filter: the client is told which channels there are.
    """
    if "method" not in message:
        return None
    channel = CHANNELS.get(message["method"])
    params = message.get("params")
    return [
        Filter(
            channel if channel in REPLAYED_CHANNELS else "",
            None if params is None else tuple(params),
        )
    ]


FEED = Feed(connections=connections, read_subscribe=read_frame, whole_market=WHOLE_MARKET)
