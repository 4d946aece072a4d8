"""The live feed, which uses protocol v5."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.spec import Feed, FeedConnection
from tardis_machine.exchanges.venues.okex.v5 import Argument
from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import Filter

OKX_URL = "wss://ws.okx.com:8443/ws/v5/public"
OKX_BUSINESS_URL = "wss://ws.okx.com:8443/ws/v5/business"
OKCOIN_URL = "wss://real.okcoin.com:8443/ws/v5/public"

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


class Subscribe(msgspec.Struct):
    """A subscribe frame."""

    op: str
    args: list[Argument]


_encode = msgspec.json.Encoder().encode


def make_feed(exchange: str) -> Feed:
    """Describe the feed of an exchange."""
    return Feed(
        connections=partial(connections, exchange),
        read_subscribe=read_subscribe,
        recorded_only=RECORDED_ONLY,
        whole_market=frozenset({LIQUIDATIONS}),
    )


def connections(exchange: str, filters: Sequence[Filter]) -> list[FeedConnection]:
    """Return one connection per address, with everything that is subscribed there."""
    arguments: dict[str, list[Argument]] = {}
    for entry in optimize_filters(filters):
        if entry.channel not in RECORDED_ONLY:
            url = url_of(exchange, entry.channel)
            arguments.setdefault(url, []).extend(arguments_of(exchange, entry))
    return [FeedConnection(url=url, frames=frames_of(args)) for url, args in arguments.items()]


def url_of(exchange: str, channel: str) -> str:
    """Return where a channel is streamed."""
    if exchange == "okcoin":
        return OKCOIN_URL
    return OKX_BUSINESS_URL if channel in BUSINESS_CHANNELS else OKX_URL


def arguments_of(exchange: str, entry: Filter) -> Iterable[Argument]:
    """Return what is subscribed for one filter."""
    channel, symbols = entry.channel, entry.symbols
    if not symbols and exchange == "okex-options":
        symbols = OPTION_DEFAULTS.get(channel)
    if not symbols:
        raise RequestError(
            f"{exchange} does not stream {channel!r} of all symbols: name those you want."
        )
    if channel == LIQUIDATIONS:
        types = sorted({instrument_type(symbol) for symbol in symbols})
        return [Argument(channel, inst_type=name) for name in types]
    if channel == "opt-summary":
        return [Argument(channel, inst_family=symbol) for symbol in symbols]
    return [Argument(channel, inst_id=symbol) for symbol in symbols]


def instrument_type(symbol: str) -> str:
    """Return the type of a contract as liquidations are subscribed by."""
    return "SWAP" if symbol.endswith("SWAP") else "FUTURES"


def frames_of(arguments: list[Argument]) -> tuple[str, ...]:
    """Return one frame, or as many as the venue's limit makes necessary."""
    longest_bytes = max(len(_encode(argument)) for argument in arguments) + len(",")
    count = MAX_ARGUMENTS_BYTES // longest_bytes
    return tuple(
        _encode(Subscribe("subscribe", arguments[start : start + count])).decode()
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
