"""BitMEX subscriptions: `channel:symbol`, ten of one channel in a frame."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tardis_machine.exchanges.feeds import Access, Feed, FeedConnection, Verdict
from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.model.requests import Filter

EXCHANGE = "bitmex"
URL = "wss://ws.bitmex.com/realtime"

SYMBOLS_PER_FRAME = 10


class Answer(msgspec.Struct):
    """What tells refusals from other messages."""

    error: Any = None
    subscribe: str | None = None
    success: bool | None = None


_answer = msgspec.json.Decoder(Answer)


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Ask for everything on one socket."""
    wanted = optimize_filters(filters)
    frames = tuple(frame for entry in wanted for frame in frames_of(entry))
    return [FeedConnection(url=access.url(EXCHANGE, URL), filters=wanted, frames=frames)]


def frames_of(entry: Filter, action: str = "subscribe") -> Iterator[str]:
    """Return the frames of a channel; without symbols its bare name brings all of them."""
    names = [f"{entry.channel}:{symbol}" for symbol in entry.symbols or ()] or [entry.channel]
    for start in range(0, len(names), SYMBOLS_PER_FRAME):
        args = names[start : start + SYMBOLS_PER_FRAME]
        yield msgspec.json.encode({"op": action, "args": args}).decode()


def unsubscribe(filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return tuple(frame for entry in filters for frame in frames_of(entry, "unsubscribe"))


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"op": "subscribe", "args": ["trade:XBTUSD", "instrument"]}`."""
    if message.get("op") != "subscribe":
        return None
    args = message["args"]
    filters = []
    for argument in [args] if isinstance(args, str) else args:
        channel, *symbols = argument.split(":")
        filters.append(Filter(channel, tuple(symbols[:1]) or None))
    return filters


def judge(message: bytes) -> Verdict:
    """Find refusals."""
    answer = _answer.decode(message)
    is_refused = answer.subscribe is not None and answer.success is False
    return Verdict.ERROR if answer.error is not None or is_refused else Verdict.IGNORED


FEED = Feed(
    connections=connections,
    read_subscribe=read_subscribe,
    judge=judge,
    unsubscribe=unsubscribe,
)
