"""Coinbase subscriptions: names that stand for several types of messages."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tardis_machine.exchanges.feeds import Access, Feed, FeedConnection, Verdict, symbols_of
from tardis_machine.exchanges.filters import merge_filters, optimize_filters
from tardis_machine.exchanges.venues.coinbase.signing import signed
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import SECOND_US

EXCHANGE = "coinbase"
URL = "wss://ws-feed.exchange.coinbase.com"
PRIVATE_URL = "wss://ws-direct.exchange.coinbase.com"

CREDENTIALS = ("COINBASE_API_KEY", "COINBASE_API_SECRET", "COINBASE_API_PASSPHRASE")

SIGNED_REQUEST = "GET/users/self/verify"

FULL_ONLY = frozenset({"received", "open", "done", "change", "full_snapshot"})
"""Types that only the channel of all orders has; it has trades as well."""

SUBSCRIBED_CHANNELS = {
    "full": ("received", "open", "done", "match", "change", "full_snapshot"),
    "level2": ("snapshot", "l2update"),
    "level2_batch": ("snapshot", "l2update"),
    "matches": ("match", "last_match"),
    "ticker": ("ticker",),
}
"""Channels one subscribes to -> the message types that arrive."""


class Type(msgspec.Struct):
    """What tells refusals from other messages."""

    type: str | None = None


_type = msgspec.json.Decoder(Type)


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Ask for everything on one socket, with one frame."""
    wanted = optimize_filters(filters)
    url = PRIVATE_URL if access.has(*CREDENTIALS) else URL
    return [
        FeedConnection(
            url=access.url(EXCHANGE, url),
            filters=wanted,
            frames=(subscribe_frame(wanted, access),),
        )
    ]


def subscribe_frame(filters: Sequence[Filter], access: Access, action: str = "subscribe") -> str:
    """Write the one message for all channels."""
    is_private = access.has(*CREDENTIALS)
    channels = [
        {"name": entry.channel, "product_ids": symbols_of(EXCHANGE, entry)}
        for entry in subscribed(filters, is_private=is_private)
    ]
    message: dict[str, Any] = {"type": action, "channels": channels}
    if is_private:
        message |= signature(access)
    return msgspec.json.encode(message).decode()


def unsubscribe(filters: Sequence[Filter], access: Access) -> tuple[str, ...]:
    """Return the frame that leaves filters."""
    return (subscribe_frame(filters, access, "unsubscribe"),)


def subscribed(filters: Sequence[Filter], *, is_private: bool) -> tuple[Filter, ...]:
    """Return the channels that bring the wanted types of messages, by name."""
    needs_full = any(entry.channel in FULL_ONLY for entry in filters)
    level2 = "level2" if is_private else "level2_batch"
    names = {
        "snapshot": level2,
        "l2update": level2,
        "match": "full" if needs_full else "matches",
        "last_match": "full" if needs_full else "matches",
    } | dict.fromkeys(FULL_ONLY, "full")
    return optimize_filters(
        merge_filters(
            Filter(names.get(entry.channel, "ticker"), entry.symbols) for entry in filters
        )
    )


def signature(access: Access) -> dict[str, Any]:
    """Return what whoever has credentials adds to a subscription."""
    key, secret, passphrase = map(access.get, CREDENTIALS)
    timestamp = access.now_us // SECOND_US
    return {
        "signature": signed(f"{timestamp}{SIGNED_REQUEST}", secret, CREDENTIALS[1]),
        "key": key,
        "passphrase": passphrase,
        "timestamp": timestamp,
    }


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"type": "subscribe", "product_ids": […], "channels": ["level2", {"name": …}]}`."""
    if message.get("type") != "subscribe":
        return None
    filters = []
    for entry in message["channels"]:
        channel = {"name": entry, **message} if isinstance(entry, str) else entry
        symbols = channel.get("product_ids")
        filters += [
            Filter(name, None if symbols is None else tuple(symbols))
            for name in SUBSCRIBED_CHANNELS[channel["name"]]
        ]
    return filters


def judge(message: bytes) -> Verdict:
    """Find refusals."""
    return Verdict.ERROR if _type.decode(message).type == "error" else Verdict.IGNORED


FEED = Feed(
    connections=connections,
    read_subscribe=read_subscribe,
    judge=judge,
    unsubscribe=unsubscribe,
)
