"""The live feeds, which use WebSocket v3: few arguments per frame, with pauses between."""

from collections.abc import Iterator, Sequence
from functools import partial

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
from tardis_machine.exchanges.venues.bitget.fields import read_subscribe
from tardis_machine.model.requests import Filter

URL = "wss://ws.bitget.com/v3/ws/public"
ARGUMENTS_PER_FRAME = 5
PAUSE_SECONDS = 0.1
MAX_SUBSCRIPTIONS = 1000

LIQUIDATIONS = "liquidation"
PRODUCTS = ("usdt-futures", "usdc-futures", "coin-futures")


class Argument(msgspec.Struct, rename={"product": "instType"}, omit_defaults=True):
    """What is subscribed: one symbol, or all of a product."""

    product: str
    topic: str
    symbol: str | None = None


class Event(msgspec.Struct):
    """What tells refusals from other messages."""

    event: str | None = None


_event = msgspec.json.Decoder(Event)


def make_feed(exchange: str) -> Feed:
    """Describe the feed of an exchange."""
    return Feed(
        connections=partial(connections, exchange),
        read_subscribe=read_subscribe,
        judge=judge,
        books=BookSequence.NUMBERED_CHECKED,
        unsubscribe=partial(unsubscribe, exchange),
        max_subscriptions=MAX_SUBSCRIPTIONS,
        whole_market=frozenset({LIQUIDATIONS}),
    )


def connections(exchange: str, filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return as many connections as the limit makes necessary."""
    url = access.url(exchange, URL)
    return [
        FeedConnection(
            url=url,
            filters=part,
            frames=frames_of(exchange, part, "subscribe"),
            pause_seconds=PAUSE_SECONDS,
        )
        for part in split_by_symbol(filters, MAX_SUBSCRIPTIONS)
    ]


def unsubscribe(exchange: str, filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return frames_of(exchange, filters, "unsubscribe")


def frames_of(exchange: str, filters: Sequence[Filter], action: str) -> tuple[str, ...]:
    """Return frames with a few arguments each."""
    arguments = [each for entry in filters for each in arguments_of(exchange, entry)]
    return tuple(
        msgspec.json.encode(
            {"op": action, "args": arguments[start : start + ARGUMENTS_PER_FRAME]}
        ).decode()
        for start in range(0, len(arguments), ARGUMENTS_PER_FRAME)
    )


def arguments_of(exchange: str, entry: Filter) -> Iterator[Argument]:
    """Return what is subscribed for one filter."""
    if entry.channel == LIQUIDATIONS:
        yield from (Argument(product, LIQUIDATIONS) for product in PRODUCTS)
        return
    for symbol in symbols_of(exchange, entry):
        yield Argument(product_of(exchange, symbol), entry.channel, symbol)


def product_of(exchange: str, symbol: str) -> str:
    """Return the product line of a symbol."""
    if exchange == "bitget":
        return "spot"
    if symbol.endswith("USDT"):
        return "usdt-futures"
    return "usdc-futures" if symbol.endswith("PERP") else "coin-futures"


def judge(message: bytes) -> Verdict:
    """Find refusals."""
    is_error = _event.decode(message).event == "error"
    return Verdict.ERROR if is_error else Verdict.IGNORED
