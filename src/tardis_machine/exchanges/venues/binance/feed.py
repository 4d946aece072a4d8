"""Binance feeds: one address per market, but two for futures, and books that begin with REST."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    Poll,
    split_by_symbol,
    symbols_of,
)
from tardis_machine.exchanges.protocols.combined_feed import (
    DEPTH,
    GENERATED,
    OPEN_INTEREST,
    depth_snapshots,
    judge,
    open_interest_poll,
    read_subscribe,
    subscribe_frames,
)
from tardis_machine.model.requests import Filter

MAX_SUBSCRIPTIONS = 1024
"""Streams per connection."""

OPEN_INTEREST_SECONDS = 5.0

PUBLIC_CHANNELS = frozenset({"trade", "depth", "depthSnapshot", "bookTicker"})
"""What futures stream at `/public`; everything else is at `/market`."""

SPOT_SPEEDS = {"depth": "100ms"}
FUTURES_SPEEDS = {"depth": "0ms", "markPrice": "1s"}
DELIVERY_SPEEDS = FUTURES_SPEEDS | {"indexPrice": "1s"}


class Market(msgspec.Struct, frozen=True, kw_only=True):
    """Where a market is streamed, and what its books cost."""

    exchange: str
    url: str
    rest_url: str
    speeds: Mapping[str, str]
    snapshot_weight: int
    route: Callable[[str, str], str] = lambda url, _: url
    """Returns the address of a channel."""


def futures_address(url: str, channel: str) -> str:
    """Return the address of a channel; an override may name any of the venue's own paths."""
    base = url.removesuffix("/stream").removesuffix("/public").removesuffix("/market")
    path = "public" if channel in PUBLIC_CHANNELS else "market"
    return f"{base}/{path}/stream"


SPOT = Market(
    exchange="binance",
    url="wss://stream.binance.com/stream?timeUnit=microsecond",
    rest_url="https://api.binance.com/api/v1",
    speeds=SPOT_SPEEDS,
    snapshot_weight=10,
)
US = Market(
    exchange="binance-us",
    url="wss://stream.binance.us:9443/stream",
    rest_url="https://api.binance.us/api/v1",
    speeds=SPOT_SPEEDS,
    snapshot_weight=10,
)
FUTURES = Market(
    exchange="binance-futures",
    url="wss://fstream.binance.com/stream",
    rest_url="https://fapi.binance.com/fapi/v1",
    speeds=FUTURES_SPEEDS,
    snapshot_weight=20,
    route=futures_address,
)
DELIVERY = Market(
    exchange="binance-delivery",
    url="wss://dstream.binance.com/stream",
    rest_url="https://dapi.binance.com/dapi/v1",
    speeds=DELIVERY_SPEEDS,
    snapshot_weight=20,
)


def make_feed(market: Market) -> Feed:
    """Describe the feed of a market."""
    return Feed(
        connections=partial(connections, market),
        read_subscribe=read_subscribe,
        judge=judge,
        books=BookSequence.REST,
        unsubscribe=partial(unsubscribe, market),
        max_subscriptions=MAX_SUBSCRIPTIONS,
        generated=GENERATED,
    )


def connections(market: Market, filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return the connections of each address, as many as the limit makes necessary."""
    base = access.url(market.exchange, market.url)
    by_url: dict[str, list[Filter]] = {}
    for entry in filters:
        by_url.setdefault(market.route(base, entry.channel), []).append(entry)
    return [
        connection(market, url, part, access)
        for url, entries in by_url.items()
        for part in split_by_symbol(entries, MAX_SUBSCRIPTIONS)
    ]


def unsubscribe(market: Market, filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return subscribe_frames(market.exchange, filters, market.speeds, "UNSUBSCRIBE")


def connection(
    market: Market, url: str, filters: Sequence[Filter], access: Access
) -> FeedConnection:
    """Return one connection, and the REST calls that complete it."""
    has_books = any(entry.channel == DEPTH for entry in filters)
    exchange, rest_url = market.exchange, market.rest_url
    return FeedConnection(
        url=url,
        filters=tuple(filters),
        frames=subscribe_frames(exchange, filters, market.speeds),
        snapshots=depth_snapshots(exchange, rest_url, access, market.snapshot_weight)
        if has_books
        else None,
        polls=tuple(
            poll_of(market, entry, access) for entry in filters if entry.channel == OPEN_INTEREST
        ),
    )


def poll_of(market: Market, entry: Filter, access: Access) -> Poll:
    """Describe how the open interest of some symbols is learned."""
    symbols = symbols_of(market.exchange, entry)
    return open_interest_poll(
        market.exchange, market.rest_url, access, symbols, OPEN_INTEREST_SECONDS
    )


FEEDS = {market.exchange: make_feed(market) for market in (SPOT, US, FUTURES, DELIVERY)}
