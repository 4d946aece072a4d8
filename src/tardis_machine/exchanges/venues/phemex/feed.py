"""Phemex subscriptions: a frame per symbol, or one for a channel that brings all symbols."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec

from tardis_machine.exchanges.feeds import (
    Access,
    Feed,
    FeedConnection,
    Verdict,
    split_by_symbol,
    symbols_of,
)
from tardis_machine.model.requests import Filter

EXCHANGE = "phemex"
URL = "wss://ws.phemex.com/"

MAX_SUBSCRIPTIONS = 20
"""Per connection, as documented."""

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


class Answer(msgspec.Struct):
    """What tells refusals from other messages."""

    error: Any = None


_answer = msgspec.json.Decoder(Answer)


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return as many sockets as the limit makes necessary."""
    # Channels of the whole market are one subscription, whichever symbols are asked for.
    wanted = [
        Filter(entry.channel) if entry.channel in WHOLE_MARKET else entry for entry in filters
    ]
    return [
        FeedConnection(
            url=access.url(EXCHANGE, URL),
            filters=part,
            frames=frames_of(part),
            pause_seconds=PAUSE_SECONDS,
        )
        for part in split_by_symbol(wanted, MAX_SUBSCRIPTIONS)
    ]


def frames_of(filters: Sequence[Filter]) -> tuple[str, ...]:
    """Return the frames of one socket, which are numbered from 0."""
    requests = chain.from_iterable(map(_requests, filters))
    return tuple(
        msgspec.json.encode({"id": number, "method": method, "params": params}).decode()
        for number, (method, params) in enumerate(requests)
    )


def _requests(entry: Filter) -> list[tuple[str, list[str]]]:
    method = METHODS[entry.channel]
    if entry.channel in WHOLE_MARKET:
        return [(method, [])]
    return [(method, [symbol]) for symbol in symbols_of(EXCHANGE, entry)]


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


def judge(message: bytes) -> Verdict:
    """Find refusals."""
    return Verdict.IGNORED if _answer.decode(message).error is None else Verdict.ERROR


FEED = Feed(
    connections=connections,
    read_subscribe=read_frame,
    judge=judge,
    unchecked="`sequence` rises, but not by one",
    max_subscriptions=MAX_SUBSCRIPTIONS,
    whole_market=WHOLE_MARKET,
)
