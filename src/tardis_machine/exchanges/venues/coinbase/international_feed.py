"""Subscriptions of Coinbase International: a signed frame per channel."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tardis_machine.exchanges.feeds import Access, Feed, FeedConnection, Verdict, symbols_of
from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.venues.coinbase.international import INTERNATIONAL
from tardis_machine.exchanges.venues.coinbase.signing import signed
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import SECOND_US

URL = "wss://ws-md.international.coinbase.com"

CREDENTIALS = (
    "COINBASE_INTERNATIONAL_API_KEY",
    "COINBASE_INTERNATIONAL_API_SECRET",
    "COINBASE_INTERNATIONAL_API_PASSPHRASE",
)

SERVICE = "CBINTLMD"
"""Part of what is signed."""


class Type(msgspec.Struct):
    """What tells refusals from other messages."""

    type: str | None = None


_type = msgspec.json.Decoder(Type)


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Ask for everything on one socket."""
    wanted = optimize_filters(filters)
    frames = frames_of(wanted, access)
    return [FeedConnection(url=access.url(INTERNATIONAL, URL), filters=wanted, frames=frames)]


def frames_of(
    filters: Sequence[Filter], access: Access, action: str = "SUBSCRIBE"
) -> tuple[str, ...]:
    """Return a frame per channel, all with the same signature."""
    login = signature(access)
    return tuple(
        msgspec.json.encode(
            {"type": action, "channels": [entry.channel]}
            | {"product_ids": symbols_of(INTERNATIONAL, entry)}
            | login
        ).decode()
        for entry in filters
    )


def unsubscribe(filters: Sequence[Filter], access: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return frames_of(filters, access, "UNSUBSCRIBE")


def signature(access: Access) -> dict[str, Any]:
    """Return what proves who subscribes; the venue streams nothing without it.

    Raises:
        RequestError: credentials are missing.
    """
    key, secret, passphrase = access.credentials(INTERNATIONAL, CREDENTIALS)
    timestamp = access.now_us // SECOND_US
    text = f"{timestamp}{key}{SERVICE}{passphrase}"
    return {
        "time": timestamp,
        "key": key,
        "passphrase": passphrase,
        "signature": signed(text, secret, CREDENTIALS[1]),
    }


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"type": "SUBSCRIBE", "channels": ["MATCH"], "product_ids": ["BTC-PERP"]}`."""
    if message.get("type") != "SUBSCRIBE":
        return None
    symbols = message.get("product_ids")
    return [
        Filter(channel, None if symbols is None else tuple(symbols))
        for channel in message["channels"]
    ]


def judge(message: bytes) -> Verdict:
    """Find refusals."""
    return Verdict.ERROR if _type.decode(message).type == "REJECT" else Verdict.IGNORED


FEED = Feed(
    connections=connections,
    read_subscribe=read_subscribe,
    judge=judge,
    unchecked="the venue does not say what `sequence` counts",
    unsubscribe=unsubscribe,
    credentials=CREDENTIALS,
)
