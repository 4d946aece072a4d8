"""The live feed, which uses protocol v5."""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    Verdict,
    by_place,
    streamed,
    symbols_of,
)
from tardis_machine.exchanges.venues.okex.v5 import Argument
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import SECOND_US

OKX_URL = "wss://ws.okx.com:8443/ws/v5/public"
OKX_BUSINESS_URL = "wss://ws.okx.com:8443/ws/v5/business"
OKCOIN_URL = "wss://real.okcoin.com:8443/ws/v5/public"

SPREADS = "okex-spreads"

BUSINESS_CHANNELS = frozenset({"trades-all"})

MAX_ARGUMENTS_BYTES = 64_000
"""What the arguments of one frame may take: the venue refuses requests above 64 KB."""

OPTION_DEFAULTS = {
    "opt-summary": ("BTC-USD", "BTC-USD_UM", "ETH-USD", "ETH-USD_UM", "SOL-USD_UM"),
    "index-tickers": ("BTC-USD", "ETH-USD", "SOL-USD"),
}
"""Families and indexes of options, for filters that name none."""

RECORDED_ONLY = frozenset({"liquidations"})

LIQUIDATIONS = "liquidation-orders"

CREDENTIALS = ("OKX_API_KEY", "OKX_API_SECRET_KEY", "OKX_API_PASSPHRASE")

SIGNED_REQUEST = "GET/users/self/verify"
LOGIN_PAUSE_SECONDS = 0.05


class Subscribe(msgspec.Struct):
    """A subscribe or unsubscribe frame."""

    op: str
    args: list[Argument]


class Event(msgspec.Struct):
    """What tells answers from other messages."""

    event: str | None = None
    msg: str = ""


_encode = msgspec.json.Encoder().encode
_event = msgspec.json.Decoder(Event)


def make_feed(exchange: str) -> Feed:
    """Describe the feed of an exchange."""
    return Feed(
        connections=partial(connections, exchange),
        read_subscribe=read_subscribe,
        # An unknown spread ends the connection, unlike an unknown instrument.
        judge=judge_spreads if exchange == SPREADS else judge,
        books=BookSequence.WHOLE if exchange == SPREADS else BookSequence.NUMBERED_CHECKED,
        unchecked="" if exchange in (SPREADS, "okcoin") else "checksums are 0 since June 2026",
        unsubscribe=partial(unsubscribe, exchange),
        recorded_only=RECORDED_ONLY,
        whole_market=frozenset({LIQUIDATIONS}),
    )


def connections(exchange: str, filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return one connection per address, with everything that is subscribed there."""
    wanted = by_place(streamed(filters, RECORDED_ONLY), partial(url_of, exchange))
    return [
        FeedConnection(
            url=access.url(exchange, url),
            filters=entries,
            frames=frames_of([arg for entry in entries for arg in arguments_of(exchange, entry)]),
            opening=logins(exchange, access),
            opening_pause_seconds=LOGIN_PAUSE_SECONDS,
        )
        for url, entries in wanted.items()
    ]


def logins(exchange: str, access: Access) -> tuple[str, ...]:
    """Return the login of whoever has credentials; it opens books with more updates."""
    if exchange == "okcoin" or not access.has(*CREDENTIALS):
        return ()
    key, secret, passphrase = map(access.get, CREDENTIALS)
    timestamp = str(access.now_us // SECOND_US)
    digest = hmac.digest(secret.encode(), (timestamp + SIGNED_REQUEST).encode(), hashlib.sha256)
    login = {
        "apiKey": key,
        "passphrase": passphrase,
        "timestamp": timestamp,
        "sign": base64.b64encode(digest).decode(),
    }
    return (_encode({"op": "login", "args": [login]}).decode(),)


def unsubscribe(exchange: str, filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    arguments = [arg for entry in filters for arg in arguments_of(exchange, entry)]
    return frames_of(arguments, "unsubscribe")


def judge(message: bytes) -> Verdict:
    """Find refusals; a channel or symbol that does not exist leaves the others alone."""
    event = _event.decode(message)
    if event.event != "error":
        return Verdict.IGNORED
    is_unknown = "channel" in event.msg and "doesn't exist" in event.msg
    return Verdict.REJECTED if is_unknown else Verdict.ERROR


def judge_spreads(message: bytes) -> Verdict:
    """Find refusals, all of which end the connection."""
    return Verdict.ERROR if _event.decode(message).event == "error" else Verdict.IGNORED


def url_of(exchange: str, channel: str) -> str:
    """Return where a channel is streamed."""
    if exchange == "okcoin":
        return OKCOIN_URL
    is_business = exchange == SPREADS or channel in BUSINESS_CHANNELS
    return OKX_BUSINESS_URL if is_business else OKX_URL


def arguments_of(exchange: str, entry: Filter) -> Iterable[Argument]:
    """Return what is subscribed for one filter."""
    channel, symbols = entry.channel, entry.symbols
    if not symbols and exchange == "okex-options":
        symbols = OPTION_DEFAULTS.get(channel)
    symbols = symbols_of(exchange, Filter(channel, symbols))
    if exchange == SPREADS:
        return [Argument(channel, sprd_id=symbol) for symbol in symbols]
    if channel == LIQUIDATIONS:
        types = sorted({instrument_type(symbol) for symbol in symbols})
        return [Argument(channel, inst_type=name) for name in types]
    if channel == "opt-summary":
        return [Argument(channel, inst_family=symbol) for symbol in symbols]
    return [Argument(channel, inst_id=symbol) for symbol in symbols]


def instrument_type(symbol: str) -> str:
    """Return the type of a contract as liquidations are subscribed by."""
    return "SWAP" if symbol.endswith("SWAP") else "FUTURES"


def frames_of(arguments: list[Argument], action: str = "subscribe") -> tuple[str, ...]:
    """Return one frame, or as many as the venue's limit makes necessary."""
    longest_bytes = max(len(_encode(argument)) for argument in arguments) + len(",")
    count = MAX_ARGUMENTS_BYTES // longest_bytes
    return tuple(
        _encode(Subscribe(action, arguments[start : start + count])).decode()
        for start in range(0, len(arguments), count)
    )


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"op": "subscribe", "args": [{"channel": "trades", "instId": "BTC-USDT"}]}`."""
    if not isinstance(message, dict) or message.get("op") != "subscribe":
        return None
    return [
        Filter(argument.channel, (argument.symbol,) if argument.symbol else None)
        for argument in msgspec.convert(message, Subscribe).args
    ]
