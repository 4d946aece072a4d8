"""Deribit channels, `<name>.<instrument>.<interval>`, and how one subscribes to them."""

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
from tardis_machine.model.requests import Filter

EXCHANGE = "deribit"
URL = "wss://streams.deribit.com/ws/api/v2"
PRIVATE_URL = "wss://www.deribit.com/ws/api/v2"

CREDENTIALS = ("DERIBIT_API_CLIENT_ID", "DERIBIT_API_CLIENT_SECRET")

DOTTED_CHANNELS = ("markprice.options", "instrument.state.any")
"""Channels whose own name has dots."""

INTERVAL_CHANNELS = frozenset({"book", "perpetual", "trades", "ticker"})
"""Channels whose updates are collected for a while; whoever logs in gets each at once."""

MAX_SUBSCRIPTIONS = 500
"""Per subscribe frame, and thus per connection."""

HEARTBEAT_SECONDS = 10
LOGIN_PAUSE_SECONDS = 0.01

HEARTBEAT_ID, LOGIN_ID, SUBSCRIBE_ID, TEST_ID = 0, 1, 3, 4


class HeartbeatParams(msgspec.Struct):
    """Says whether the venue wants an answer."""

    type: str | None = None


class Message(msgspec.Struct):
    """What tells heartbeats and refusals from other messages."""

    method: str | None = None
    error: Any = None
    params: HeartbeatParams | None = None


_message = msgspec.json.Decoder(Message)


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return as many sockets as the limit makes necessary."""
    return [
        FeedConnection(
            url=access.url(EXCHANGE, PRIVATE_URL if access.has(*CREDENTIALS) else URL),
            filters=part,
            frames=(subscribe_frame(part, access),),
            opening=opening(access),
            opening_pause_seconds=LOGIN_PAUSE_SECONDS,
        )
        for part in split_by_symbol(filters, MAX_SUBSCRIPTIONS)
    ]


def opening(access: Access) -> tuple[str, ...]:
    """Switch heartbeats on, and log in with credentials."""
    heartbeat = request("public/set_heartbeat", HEARTBEAT_ID, interval=HEARTBEAT_SECONDS)
    if not access.has(*CREDENTIALS):
        return (heartbeat,)
    client_id, client_secret = map(access.get, CREDENTIALS)
    login = request(
        "public/auth",
        LOGIN_ID,
        grant_type="client_credentials",
        client_id=client_id,
        client_secret=client_secret,
    )
    return heartbeat, login


def subscribe_frame(filters: Sequence[Filter], access: Access, action: str = "subscribe") -> str:
    """Write the one request for all channels."""
    is_private = access.has(*CREDENTIALS)
    interval = "raw" if is_private else "100ms"
    channels = [
        f"{entry.channel}.{symbol}" + (f".{interval}" if has_interval(entry.channel) else "")
        for entry in filters
        for symbol in symbols_of(EXCHANGE, entry)
    ]
    scope = "private" if is_private else "public"
    return request(f"{scope}/{action}", SUBSCRIBE_ID, channels=channels)


def has_interval(channel: str) -> bool:
    """Say whether the name of a channel ends with an interval."""
    return channel in INTERVAL_CHANNELS


def unsubscribe(filters: Sequence[Filter], access: Access) -> tuple[str, ...]:
    """Return the frame that leaves filters."""
    return (subscribe_frame(filters, access, "unsubscribe"),)


def request(method: str, number: int, **params: Any) -> str:
    """Write a request."""
    content = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return msgspec.json.encode(content).decode()


def judge(message: bytes) -> Verdict:
    """Find heartbeats and refusals."""
    decoded = _message.decode(message)
    if decoded.error is not None:
        return Verdict.ERROR
    return Verdict.HEARTBEAT if decoded.method == "heartbeat" else Verdict.IGNORED


def answer(message: bytes) -> str | None:
    """Answer a heartbeat that asks for it; the venue closes the connection otherwise."""
    params = _message.decode(message).params
    is_test = params is not None and params.type == "test_request"
    return request("public/test", TEST_ID) if is_test else None


def filter_symbol(symbol: str) -> str:
    """Write a symbol as the feed does: upper case, but `d` in strikes of options."""
    parts = symbol.split("-")
    if parts[-1] in ("C", "P") and len(parts) > 2 and "d" in parts[2].lower():
        parts[2] = parts[2].replace("D", "d", 1)
        return "-".join(parts)
    return symbol.upper()


def locate(channel: str) -> Filter:
    """Split a channel: its name, and the instrument before the interval."""
    dotted = next((name for name in DOTTED_CHANNELS if channel.startswith(f"{name}.")), None)
    if dotted is not None:
        return Filter(dotted, (channel.removeprefix(f"{dotted}."),))
    name, _, rest = channel.partition(".")
    symbol = rest.rpartition(".")[0] or rest
    return Filter(name, (symbol,) if symbol else None)


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"method": "public/subscribe", "params": {"channels": ["book.X.100ms"]}}`."""
    if message.get("method") not in ("public/subscribe", "private/subscribe"):
        return None
    return [locate(channel) for channel in message["params"]["channels"]]


FEED = Feed(
    connections=connections,
    read_subscribe=read_subscribe,
    judge=judge,
    books=BookSequence.NUMBERED,
    answer=answer,
    unsubscribe=unsubscribe,
    max_subscriptions=MAX_SUBSCRIPTIONS,
)
