"""Hyperliquid subscriptions: a frame per channel and coin."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    Verdict,
    split_by_symbol,
    symbols_of,
)
from tardis_machine.exchanges.venues.hyperliquid.mappers import BOOK, EXCHANGE, FAST_BOOK
from tardis_machine.model.requests import Filter

URL = "wss://api.hyperliquid.xyz/ws"

MAX_SUBSCRIPTIONS = 1000
"""Per address of a client."""

PING = msgspec.json.encode({"method": "ping"}).decode()


class Channel(msgspec.Struct):
    """What tells heartbeats and refusals from other messages."""

    channel: str | None = None


_channel = msgspec.json.Decoder(Channel)


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return as many connections as the limit makes necessary."""
    return [
        FeedConnection(
            url=access.url(EXCHANGE, URL),
            filters=part,
            frames=tuple(frame for entry in part for frame in frames_of(entry)),
        )
        for part in split_by_symbol(filters, MAX_SUBSCRIPTIONS)
    ]


def frames_of(entry: Filter, method: str = "subscribe") -> list[str]:
    """Return a frame per coin."""
    is_fast = entry.channel == FAST_BOOK
    kind = {"type": BOOK, "fast": True} if is_fast else {"type": entry.channel}
    return [
        msgspec.json.encode({"method": method, "subscription": {"coin": coin, **kind}}).decode()
        for coin in symbols_of(EXCHANGE, entry)
    ]


def unsubscribe(filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return tuple(frame for entry in filters for frame in frames_of(entry, "unsubscribe"))


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"method": "subscribe", "subscription": {"type": "l2Book", "coin": "BTC"}}`."""
    if message.get("method") != "subscribe":
        return None
    wanted = message.get("subscription") or message
    is_fast = wanted["type"] == BOOK and wanted.get("fast") is True
    # Without a coin the list has an empty entry, as clients have always seen it.
    return [Filter(FAST_BOOK if is_fast else wanted["type"], (wanted.get("coin"),))]


def read_live_subscribe(message: Any) -> list[Filter] | None:
    """Read the same as the venue does: without a coin the whole channel."""
    filters = read_subscribe(message)
    if filters is None:
        return None
    [entry] = filters
    return filters if any(entry.symbols or ()) else [Filter(entry.channel)]


def judge(message: bytes) -> Verdict:
    """Find heartbeats and refusals."""
    channel = _channel.decode(message).channel
    if channel == "pong":
        return Verdict.HEARTBEAT
    return Verdict.ERROR if channel == "error" else Verdict.IGNORED


FEED = Feed(
    connections=connections,
    read_subscribe=read_live_subscribe,
    judge=judge,
    books=BookSequence.WHOLE,
    ping=lambda _: PING,
    unsubscribe=unsubscribe,
    max_subscriptions=MAX_SUBSCRIPTIONS,
)
