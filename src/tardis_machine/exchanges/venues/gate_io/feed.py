"""The live feeds: spot on one address, futures on one per currency of the margin."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    Verdict,
    streamed,
    symbols_of,
)
from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.exchanges.venues.gate_io.spot import book_symbol
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import SECOND_US

SPOT = "gate-io"
FUTURES = "gate-io-futures"
SPOT_URL = "wss://api.gateio.ws/ws/v4/"
FUTURES_URL = "wss://fx-ws.gateio.ws/v4/ws/"

FUTURES_HEADERS = {"X-Gate-Size-Decimal": "1"}
"""Sizes then come as decimal text; without it fractions are cut."""

SPOT_BOOKS = "obu"
FUTURES_BOOKS = "order_book"
DEPTH_AND_INTERVAL = ("20", "0")

RECORDED_ONLY = frozenset({"depth", "order_book_update"})


class Answer(msgspec.Struct):
    """What tells refusals from other messages."""

    error: Any = None


_answer = msgspec.json.Decoder(Answer)


def spot_connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Ask for everything on one socket, symbol by symbol."""
    wanted = streamed(filters, RECORDED_ONLY)
    if not wanted:
        return []
    frames = tuple(spot_frames(wanted, access, "subscribe"))
    return [FeedConnection(url=access.url(SPOT, SPOT_URL), filters=wanted, frames=frames)]


def spot_frames(filters: Sequence[Filter], access: Access, event: str) -> Iterator[str]:
    """Return a frame per channel and symbol; those of books name the depth."""
    for entry in filters:
        for symbol in symbols_of(SPOT, entry):
            name = f"ob.{symbol}.400" if entry.channel == SPOT_BOOKS else symbol
            yield frame(access.now_us // 1000, f"spot.{entry.channel}", event, [name])


def spot_unsubscribe(filters: Sequence[Filter], access: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return tuple(spot_frames(filters, access, "unsubscribe"))


def futures_connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return one connection per currency of the margin."""
    by_margin: dict[str, list[Filter]] = {}
    for entry in filters:
        for symbol in symbols_of(FUTURES, entry):
            margin = "usdt" if symbol.endswith("_USDT") else "btc"
            by_margin.setdefault(margin, []).append(Filter(entry.channel, (symbol,)))
    return [
        FeedConnection(
            url=access.url(FUTURES, FUTURES_URL + margin),
            filters=optimize_filters(wanted),
            frames=tuple(futures_frames(optimize_filters(wanted), access, "subscribe")),
            headers=FUTURES_HEADERS,
        )
        for margin, wanted in sorted(by_margin.items())
    ]


def futures_frames(filters: Sequence[Filter], access: Access, event: str) -> Iterator[str]:
    """Return a frame per channel, but one per symbol for books."""
    seconds = access.now_us // SECOND_US
    for entry in filters:
        channel, symbols = f"futures.{entry.channel}", symbols_of(FUTURES, entry)
        if entry.channel == FUTURES_BOOKS:
            for symbol in symbols:
                yield frame(seconds, channel, event, [symbol, *DEPTH_AND_INTERVAL])
        else:
            yield frame(seconds, channel, event, symbols)


def futures_unsubscribe(filters: Sequence[Filter], access: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return tuple(futures_frames(filters, access, "unsubscribe"))


def frame(time: int, channel: str, event: str, payload: Sequence[str]) -> str:
    """Write a frame."""
    message = {"time": time, "channel": channel, "event": event, "payload": payload}
    return msgspec.json.encode(message).decode()


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"channel": "spot.obu", "event": "subscribe", "payload": ["ob.BTC_USDT.400"]}`."""
    if not isinstance(message, dict) or message.get("event") != "subscribe":
        return None
    channel, names = message["channel"].partition(".")[2], message["payload"]
    if channel == FUTURES_BOOKS:
        names = names[:1]
    if channel == SPOT_BOOKS:
        names = map(book_symbol, names)
    return [Filter(channel, tuple(names))]


def judge(message: bytes) -> Verdict:
    """Find refusals."""
    return Verdict.IGNORED if _answer.decode(message).error is None else Verdict.ERROR


SPOT_FEED = Feed(
    connections=spot_connections,
    read_subscribe=read_subscribe,
    judge=judge,
    books=BookSequence.NUMBERED,
    unsubscribe=spot_unsubscribe,
    recorded_only=RECORDED_ONLY,
)
FUTURES_FEED = Feed(
    connections=futures_connections,
    read_subscribe=read_subscribe,
    judge=judge,
    books=BookSequence.UNNUMBERED,
    unchecked="the venue does not say that the ids of levels follow each other",
    unsubscribe=futures_unsubscribe,
)
