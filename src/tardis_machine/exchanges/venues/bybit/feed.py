"""The live feeds, which use protocol v5; derivatives have an address per kind of margin."""

from collections.abc import Iterator, Sequence
from functools import partial
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
from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.venues.bybit.options import TRADES
from tardis_machine.exchanges.venues.bybit.topics import locate
from tardis_machine.model.requests import Filter

URL = "wss://stream.bybit.com/v5/public/"
PATHS = {"bybit-spot": "spot", "bybit-options": "option"}

TOPICS_PER_FRAME = 10
"""More are refused for spot."""

MAX_TOPICS = 2000
"""Most topics of a connection for options; others have no such limit."""

PING = '{"op":"ping"}'


class Answer(msgspec.Struct):
    """What tells pongs and refusals from other messages."""

    success: bool | None = None
    ret_msg: str | None = None
    op: str | None = None


_answer = msgspec.json.Decoder(Answer)


def make_feed(exchange: str) -> Feed:
    """Describe the feed of an exchange."""
    is_options = exchange == "bybit-options"
    return Feed(
        connections=partial(connections, exchange),
        read_subscribe=read_subscribe,
        judge=judge,
        books=BookSequence.NUMBERED,
        ping=lambda _: PING,
        unsubscribe=partial(unsubscribe, exchange),
        max_subscriptions=MAX_TOPICS if is_options else None,
        grouped={TRADES: currency_of} if is_options else {},
    )


def connections(exchange: str, filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return one connection per address, or as many as the limit of options makes necessary."""
    by_path: dict[str, list[Filter]] = {}
    for entry in filters:
        for symbol in symbols_of(exchange, entry):
            wanted = by_path.setdefault(path_of(exchange, symbol), [])
            wanted.append(Filter(entry.channel, (symbol,)))
    return [
        FeedConnection(
            url=access.url(exchange, URL + path),
            filters=group,
            frames=tuple(frames_of(topics_of(exchange, group))),
        )
        for path, wanted in sorted(by_path.items())
        for group in groups_of(exchange, wanted)
    ]


def groups_of(exchange: str, filters: Sequence[Filter]) -> list[tuple[Filter, ...]]:
    """Spread filters over connections."""
    if exchange == "bybit-options":
        return [*split_by_symbol(filters, MAX_TOPICS)]
    return [optimize_filters(filters)]


def path_of(exchange: str, symbol: str) -> str:
    """Return where a symbol is streamed; contracts in USDT and USDC are linear."""
    if exchange in PATHS:
        return PATHS[exchange]
    is_linear = symbol.endswith(("USDT", "PERP")) or "-" in symbol
    return "linear" if is_linear else "inverse"


def topics_of(exchange: str, filters: Sequence[Filter]) -> list[str]:
    """Return the topics of filters, each once."""
    topics: dict[str, None] = {}
    for entry in filters:
        is_grouped = exchange == "bybit-options" and entry.channel == TRADES
        symbols = symbols_of(exchange, entry)
        for name in map(currency_of, symbols) if is_grouped else symbols:
            topics[f"{entry.channel}.{name}"] = None
    return list(topics)


def currency_of(symbol: str) -> str:
    """Return the currency that an option is on."""
    return symbol.partition("-")[0]


def frames_of(topics: Sequence[str], action: str = "subscribe") -> Iterator[str]:
    """Return frames with a few topics each."""
    for start in range(0, len(topics), TOPICS_PER_FRAME):
        args = topics[start : start + TOPICS_PER_FRAME]
        yield msgspec.json.encode({"op": action, "args": args}).decode()


def unsubscribe(exchange: str, filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return tuple(frames_of(topics_of(exchange, filters), "unsubscribe"))


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"op": "subscribe", "args": ["orderbook.50.BTCUSDT", "publicTrade.BTCUSDT"]}`."""
    if not isinstance(message, dict) or message.get("op") != "subscribe":
        return None
    return [locate(topic) for topic in message["args"]]


def judge(message: bytes) -> Verdict:
    """Find pongs and refusals."""
    answer = _answer.decode(message)
    if answer.success is False:
        return Verdict.ERROR
    is_pong = "pong" in (answer.ret_msg, answer.op)
    return Verdict.HEARTBEAT if is_pong else Verdict.IGNORED
