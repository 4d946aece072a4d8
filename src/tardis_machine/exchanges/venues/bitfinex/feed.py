"""Bitfinex subscriptions: a frame per channel and symbol, few of them on one connection."""

from collections.abc import Sequence
from functools import partial
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
from tardis_machine.exchanges.venues.bitfinex.channels import (
    DERIVATIVE_KEY,
    LIQUIDATIONS,
    LIQUIDATIONS_KEY,
)
from tardis_machine.model.requests import Filter

URL = "wss://api-pub.bitfinex.com/ws/2"

TIMES_AND_NUMBERS = 32_768 + 65_536
"""Flags that add a time and a sequence number to every array."""
CONFIGURE = msgspec.json.encode({"event": "conf", "flags": TIMES_AND_NUMBERS}).decode()

MAX_SUBSCRIPTIONS = 25
"""Channels that the venue accepts on one connection."""

BOOK = {"channel": "book", "freq": "F0", "len": 100}
PRECISIONS = {"book": "P0", "raw_book": "R0"}


class Event(msgspec.Struct):
    """What tells refusals from other messages."""

    event: str | None = None


_message = msgspec.json.Decoder(list[msgspec.Raw] | Event)


def connections(exchange: str, filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return as many connections as the limit makes necessary."""
    return [
        FeedConnection(
            url=access.url(exchange, URL),
            filters=part,
            frames=tuple(frame for entry in part for frame in frames_of(exchange, entry)),
            opening=(CONFIGURE,),
        )
        for part in split_by_symbol(filters, MAX_SUBSCRIPTIONS)
    ]


def frames_of(exchange: str, entry: Filter) -> list[str]:
    """Return a frame per symbol; liquidations have none."""
    if entry.channel == LIQUIDATIONS:
        return [write({"channel": "status", "key": LIQUIDATIONS_KEY})]
    return [write(topic(entry.channel, symbol)) for symbol in symbols_of(exchange, entry)]


def topic(channel: str, symbol: str) -> dict[str, Any]:
    """Return what a channel of a symbol is subscribed by."""
    if channel == "status":
        return {"channel": channel, "key": f"{DERIVATIVE_KEY}{symbol}"}
    if channel in PRECISIONS:
        return BOOK | {"prec": PRECISIONS[channel], "symbol": f"t{symbol}"}
    return {"channel": channel, "symbol": f"t{symbol}"}


def write(fields: dict[str, Any]) -> str:
    """Write a subscribe frame."""
    return msgspec.json.encode({"event": "subscribe", **fields}).decode()


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"event": "subscribe", "channel": "trades", "symbol": "tBTCUSD"}`."""
    if message.get("event") != "subscribe":
        return None
    channel, key = message["channel"], message.get("key", "")
    if key == LIQUIDATIONS_KEY:
        return [Filter(LIQUIDATIONS)]
    if channel == "status":
        return [Filter(channel, (key.removeprefix(DERIVATIVE_KEY),))]
    if message.get("prec") == PRECISIONS["raw_book"]:
        channel = "raw_book"
    return [Filter(channel, (message["symbol"].removeprefix("t"),))]


def judge(message: bytes) -> Verdict:
    """Find heartbeats and refusals."""
    decoded = _message.decode(message)
    if isinstance(decoded, Event):
        return Verdict.ERROR if decoded.event == "error" else Verdict.IGNORED
    is_heartbeat = len(decoded) > 1 and bytes(decoded[1]) == b'"hb"'
    return Verdict.HEARTBEAT if is_heartbeat else Verdict.IGNORED


def make_feed(exchange: str) -> Feed:
    """Describe the feed of a market; one leaves a subscription by its number, which frames lack."""
    return Feed(
        connections=partial(connections, exchange),
        read_subscribe=read_subscribe,
        judge=judge,
        unchecked="numbers count all channels of a connection; checksums are not subscribed",
        max_subscriptions=MAX_SUBSCRIPTIONS,
        whole_market=frozenset({LIQUIDATIONS}),
    )
