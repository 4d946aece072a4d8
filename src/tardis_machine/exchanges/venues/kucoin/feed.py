"""The live feeds: an address with a token is asked for before every connection."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from tardis_machine.exchanges.feeds import (
    Access,
    AddressCall,
    BookSequence,
    Feed,
    FeedConnection,
    Poll,
    RestCalls,
    Snapshots,
    Verdict,
    split_by_symbol,
    symbols_of,
    variable,
)
from tardis_machine.model.requests import Filter

SYMBOLS_PER_FRAME = 100
MAX_SUBSCRIPTIONS = 400

DETAILS = "contract/details"
DETAILS_SECONDS = 6.0
SNAPSHOT_DELAY_SECONDS = 1.0
"""From the first update of a book to the request: its answer must not be older than that."""


class Market(msgspec.Struct, frozen=True):
    """What differs between spot and futures."""

    exchange: str
    url: str
    """By which connections are told apart."""
    rest_url: str
    books: str
    subject: str
    """Of the messages that are made from snapshots."""
    snapshot_path: str
    extras: dict[str, Any]
    """Keys of subscribe frames."""


SPOT = Market(
    exchange="kucoin",
    url="wss://ws-api-spot.kucoin.com",
    rest_url="https://api.kucoin.com/api/v1",
    books="market/level2",
    subject="trade.l2Snapshot",
    snapshot_path="market/orderbook/level2_100",
    extras={"privateChannel": False, "response": True},
)
FUTURES = Market(
    exchange="kucoin-futures",
    url="wss://ws-api-futures.kucoin.com",
    rest_url="https://api-futures.kucoin.com/api/v1",
    books="contractMarket/level2",
    subject="level2Snapshot",
    snapshot_path="level2/snapshot",
    extras={"response": True},
)
MARKETS = {market.exchange: market for market in (SPOT, FUTURES)}


class Server(msgspec.Struct):
    """One of the servers that a token is good for."""

    endpoint: str


class Token(msgspec.Struct, rename="camel"):
    """Permission to connect."""

    token: str
    instance_servers: list[Server]


class TokenAnswer(msgspec.Struct):
    """The answer to the request for a token."""

    data: Token


class Details(msgspec.Struct):
    """The answer of the REST API about all contracts."""

    data: list[msgspec.Raw]


class DetailsSymbol(msgspec.Struct):
    """One of these contracts, for its symbol."""

    symbol: str


class Header(msgspec.Struct):
    """What tells pongs and refusals from other messages."""

    type: str | None = None


_token = msgspec.json.Decoder(TokenAnswer)
_details = msgspec.json.Decoder(Details)
_details_symbol = msgspec.json.Decoder(DetailsSymbol)
_header = msgspec.json.Decoder(Header)


def make_feed(exchange: str) -> Feed:
    """Describe the feed of a market."""
    market = MARKETS[exchange]
    return Feed(
        connections=partial(connections, market),
        read_subscribe=read_subscribe,
        judge=judge,
        books=BookSequence.REST,
        ping=ping,
        unsubscribe=partial(unsubscribe, market),
        max_subscriptions=MAX_SUBSCRIPTIONS,
        generated=generated_channels(market),
    )


def generated_channels(market: Market) -> frozenset[str]:
    """Return the channels whose messages are made from REST answers."""
    return frozenset({f"{market.books}Snapshot", DETAILS})


def connections(market: Market, filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return as many connections as the limit makes necessary."""
    return [
        connection(market, part, access) for part in split_by_symbol(filters, MAX_SUBSCRIPTIONS)
    ]


def connection(market: Market, filters: Sequence[Filter], access: Access) -> FeedConnection:
    """Return one connection, and the REST calls that complete it."""
    given = access.get(variable(market.exchange, "WSS_URL_"))
    channels = {entry.channel for entry in filters}
    return FeedConnection(
        url=given or market.url,
        address=None if given else address_call(market),
        filters=tuple(filters),
        frames=tuple(frames_of(market, filters, access)),
        snapshots=snapshots_of(market) if market.books in channels else None,
        polls=tuple(
            details_poll(market, symbols_of(market.exchange, entry))
            for entry in filters
            if entry.channel == DETAILS
        ),
    )


def address_call(market: Market) -> AddressCall:
    """Describe the request for a token."""
    return AddressCall(url=f"{market.rest_url}/bullet-public", read=read_address)


def read_address(answer: bytes) -> str:
    """Return the address that a token opens; the connection is named after it."""
    data = _token.decode(answer).data
    [server, *_] = data.instance_servers
    return f"{server.endpoint}?token={data.token}&connectId={data.token[:16]}"


def frames_of(
    market: Market, filters: Iterable[Filter], access: Access, action: str = "subscribe"
) -> Iterable[str]:
    """Return a frame per channel, or as many as the limit of symbols makes necessary."""
    for entry in filters:
        symbols = symbols_of(market.exchange, entry)
        if entry.channel in generated_channels(market):
            continue
        for start in range(0, len(symbols), SYMBOLS_PER_FRAME):
            names = ",".join(symbols[start : start + SYMBOLS_PER_FRAME])
            topic = {"type": action, "topic": f"/{entry.channel}:{names}"}
            frame = {"id": str(access.now_us // 1000), **topic, **market.extras}
            yield msgspec.json.encode(frame).decode()


def unsubscribe(market: Market, filters: Sequence[Filter], access: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return tuple(frames_of(market, filters, access, "unsubscribe"))


def snapshots_of(market: Market) -> Snapshots:
    """Describe how books begin."""
    topic = f'"topic":"/{market.books}Snapshot:%b","subject":"{market.subject}"'.encode()
    start = b'{"type":"message","generated":true,' + topic + b","
    path = f"{market.rest_url}/{market.snapshot_path}"
    return Snapshots(
        channel=market.books,
        calls=RestCalls(
            url=lambda symbol: f"{path}?symbol={symbol}",
            # The answer has the keys that are missing: code and data.
            wrap=lambda symbol, body: start % symbol.encode() + body.strip().removeprefix(b"{"),
        ),
        delay_seconds=SNAPSHOT_DELAY_SECONDS,
    )


def details_poll(market: Market, symbols: Sequence[str]) -> Poll:
    """Describe how the open interest of contracts is learned: one answer tells all."""
    url = f"{market.rest_url}/contracts/active"
    return Poll(
        symbols=("",),
        calls=RestCalls(url=lambda _: url, wrap=lambda _, body: body),
        interval_seconds=DETAILS_SECONDS,
        split=partial(split_details, frozenset(symbols)),
    )


def split_details(wanted: frozenset[str], answer: bytes) -> list[bytes]:
    """Make a message per contract that is wanted."""
    messages = []
    for details in _details.decode(answer).data:
        symbol = _details_symbol.decode(details).symbol
        if symbol in wanted:
            head = f'{{"topic":"/{DETAILS}:{symbol}","type":"message","subject":"contractDetails",'
            messages.append(head.encode() + b'"generated":true,"data":' + bytes(details) + b"}")
    return messages


def read_topic(topic: str) -> Filter:
    """Return channel and symbols of `/market/ticker:BTC-USDT,ETH-USDT`."""
    channel, symbols = topic.removeprefix("/").split(":")
    return Filter(channel, tuple(symbols.split(",")))


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"type": "subscribe", "topic": "/market/ticker:BTC-USDT,ETH-USDT"}`."""
    if not isinstance(message, dict) or message.get("type") != "subscribe":
        return None
    return [read_topic(message["topic"])]


def ping(access: Access) -> str:
    """Write a ping."""
    return msgspec.json.encode({"id": str(access.now_us // 1000), "type": "ping"}).decode()


def judge(message: bytes) -> Verdict:
    """Find pongs and refusals."""
    kind = _header.decode(message).type
    if kind == "error":
        return Verdict.ERROR
    return Verdict.HEARTBEAT if kind == "pong" else Verdict.IGNORED
