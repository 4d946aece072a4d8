"""Huobi feeds: packed frames, up to three sockets, open interest by REST, books on request."""

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Raw

from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    Poll,
    RestCalls,
    Snapshots,
    Verdict,
    by_place,
    symbols_of,
)
from tardis_machine.exchanges.venues.huobi import topics
from tardis_machine.exchanges.venues.huobi.derivatives import CONTRACT_TYPES
from tardis_machine.model.errors import SourceError
from tardis_machine.model.requests import Filter

MBP, OPEN_INTEREST = "mbp", "open_interest"
NOTIFIED = frozenset({"funding_rate", "liquidation_orders", "contract_info"})
"""What comes as notifications, on a socket of its own."""

INDEX_URL = "wss://api.hbdm.com/ws_index"
MBP_URL = "wss://api-aws.huobi.pro/feed"

SUFFIXES = {"trade": ".detail", MBP: ".400", "basis": ".1min.close"}
WHOLE_DEPTH, CHANGED_DEPTH = ".step0", ".size_150.high_freq"

POLL_SECONDS = 4.0
CONCURRENT_POLLS = 10
REQUEST_DELAY_SECONDS = 1.0
"""From the first update of a book to the request: some updates must be older than the answer."""

ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS

UNKNOWN_SYMBOL = "invalid symbol "


class Market(msgspec.Struct, frozen=True, kw_only=True):
    """Where a market is streamed."""

    exchange: str
    url: str
    notification_url: str = ""
    open_interest_url: Callable[[str], str] = str
    depth_suffix: str = CHANGED_DEPTH
    by_coin: frozenset[str] = frozenset()
    """Channels that are subscribed by coin."""

    def url_of(self, channel: str) -> str:
        """Return where a channel is streamed; polled values belong to the socket of indexes."""
        if channel in NOTIFIED:
            return self.notification_url
        if channel in ("basis", OPEN_INTEREST):
            return INDEX_URL
        return MBP_URL if channel == MBP else self.url


class Answer(msgspec.Struct, rename={"error_code": "err-code", "error_text": "err-msg"}):
    """What tells heartbeats and refusals from other messages."""

    ping: Any = None
    op: str | None = None
    ts: Any = None
    status: str | None = None
    error_code: Any = 0
    error_text: str = ""


class RestAnswer(msgspec.Struct):
    """An answer of the REST API."""

    status: str
    data: Raw = Raw(b"null")
    ts: Raw = Raw(b"0")


_answer = msgspec.json.Decoder(Answer)
_rest_answer = msgspec.json.Decoder(RestAnswer)
_encode = msgspec.json.Encoder().encode


def connections(market: Market, filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return one connection per address."""
    places = by_place(filters, market.url_of).items()
    return [connection(market, url, entries, access) for url, entries in places]


def connection(
    market: Market, url: str, filters: Sequence[Filter], access: Access
) -> FeedConnection:
    """Return one connection, and what completes it."""
    has_books = any(entry.channel == MBP for entry in filters)
    return FeedConnection(
        # Only the market's own address can be replaced.
        url=access.url(market.exchange, url) if url == market.url else url,
        filters=tuple(filters),
        frames=tuple(frame for entry in filters for frame in frames_of(market, entry, "sub")),
        snapshots=Snapshots(
            channel=MBP,
            request=lambda symbol: write("req", market_topic(market, MBP, symbol)),
            delay_seconds=REQUEST_DELAY_SECONDS,
        )
        if has_books
        else None,
        polls=tuple(poll_of(market, entry) for entry in filters if entry.channel == OPEN_INTEREST),
    )


def frames_of(market: Market, entry: Filter, action: str) -> list[str]:
    """Return a frame per symbol; none for what is polled."""
    symbols = symbols_of(market.exchange, entry)
    channel = entry.channel
    if channel == OPEN_INTEREST:
        return []
    if channel in NOTIFIED:
        return [
            _encode({"op": action, "cid": "1", "topic": f"public.{symbol}.{channel}"}).decode()
            for symbol in symbols
        ]
    is_changed_depth = channel == "depth" and market.depth_suffix == CHANGED_DEPTH
    fields = {"data_type": "incremental"} if is_changed_depth else {}
    names = [market_topic(market, channel, symbol) for symbol in symbols]
    return [write(action, name, **fields) for name in names]


def market_topic(market: Market, channel: str, symbol: str) -> str:
    """Return the name that a channel of a symbol is subscribed by."""
    suffix = market.depth_suffix if channel == "depth" else SUFFIXES.get(channel, "")
    return f"market.{symbol}.{channel}{suffix}"


def write(action: str, name: str, **fields: str) -> str:
    """Write a frame to the socket of a market."""
    return _encode({"id": "1", action: name, **fields}).decode()


def unsubscribe(market: Market, filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return tuple(frame for entry in filters for frame in frames_of(market, entry, "unsub"))


def poll_of(market: Market, entry: Filter) -> Poll:
    """Describe how open interest is learned."""
    return Poll(
        symbols=symbols_of(market.exchange, entry),
        interval_seconds=POLL_SECONDS,
        calls=RestCalls(
            url=market.open_interest_url, wrap=open_interest, concurrency=CONCURRENT_POLLS
        ),
    )


def open_interest(symbol: str, body: bytes) -> bytes:
    """Make the message that recorders make of a REST answer."""
    answer = _rest_answer.decode(body)
    if answer.status != "ok":
        raise SourceError(f"The open interest of {symbol} was refused: {body[:200]!r}.")
    name = f"market.{symbol}.{OPEN_INTEREST}"
    return _encode({"ch": name, "generated": True, "data": answer.data, "ts": answer.ts})


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read subscriptions of markets, and `{"op": "sub", "topic": "public.BTC.contract_info"}`."""
    if message.get("op") == "sub":
        return [topics.locate(message["topic"])]
    return topics.read_subscribe(message)


def judge(message: bytes) -> Verdict:
    """Find heartbeats and refusals; a symbol that does not exist leaves the others alone."""
    answer = _answer.decode(message)
    if answer.ping is not None:
        return Verdict.HEARTBEAT
    if answer.status == "error":
        return Verdict.REJECTED if UNKNOWN_SYMBOL in answer.error_text else Verdict.ERROR
    is_refused = answer.op in ("error", "close") or answer.error_code not in (0, "0")
    return Verdict.ERROR if is_refused else Verdict.IGNORED


def answer_ping(message: bytes) -> str | None:
    """Answer both kinds of pings."""
    answer = _answer.decode(message)
    if answer.ping is not None:
        return _encode({"pong": answer.ping}).decode()
    return _encode({"op": "pong", "ts": answer.ts}).decode() if answer.op == "ping" else None


def futures_interest_url(symbol: str) -> str:
    """Return where the open interest of `BTC_CW` is told."""
    coin, _, alias = symbol.partition("_")
    query = {"symbol": coin, "contract_type": CONTRACT_TYPES.get(alias, alias)}
    return f"https://api.hbdm.com/api/v1/contract_open_interest?{urlencode(query)}"


def swap_interest_url(api: str) -> Callable[[str], str]:
    """Return a function that says where the open interest of a swap is told."""
    url = f"https://api.hbdm.com/{api}/v1/swap_open_interest"
    return lambda symbol: f"{url}?{urlencode({'contract_code': symbol})}"


def make_feed(market: Market, books: BookSequence) -> Feed:
    """Describe the feed of a market."""
    return Feed(
        connections=partial(connections, market),
        read_subscribe=read_subscribe,
        judge=judge,
        books=books,
        unpack=lambda frame: zlib.decompress(frame, ZLIB_OR_GZIP),
        answer=answer_ping,
        unsubscribe=partial(unsubscribe, market),
        grouped=dict.fromkeys(market.by_coin, str),
        generated=frozenset({OPEN_INTEREST}),
        joined=frozenset({"derivative_ticker"}),
    )


SPOT = Market(exchange="huobi", url="wss://api-aws.huobi.pro/ws", depth_suffix=WHOLE_DEPTH)
CONTRACTS = (
    Market(
        exchange="huobi-dm",
        url="wss://api.hbdm.com/ws",
        notification_url="wss://api.hbdm.com/notification",
        open_interest_url=futures_interest_url,
        by_coin=frozenset({"liquidation_orders", "contract_info"}),
    ),
    Market(
        exchange="huobi-dm-swap",
        url="wss://api.hbdm.com/swap-ws",
        notification_url="wss://api.hbdm.com/swap-notification",
        open_interest_url=swap_interest_url("swap-api"),
    ),
    Market(
        exchange="huobi-dm-linear-swap",
        url="wss://api.hbdm.com/linear-swap-ws",
        notification_url="wss://api.hbdm.com/linear-swap-notification",
        open_interest_url=swap_interest_url("linear-swap-api"),
    ),
)

FEEDS = {SPOT.exchange: make_feed(SPOT, BookSequence.REQUESTED)} | {
    market.exchange: make_feed(market, BookSequence.NUMBERED) for market in CONTRACTS
}
"""Options are withdrawn."""
