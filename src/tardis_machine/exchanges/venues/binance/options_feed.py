"""What options of Binance are asked for: by option, by underlying, or by underlying and expiry."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tardis_machine.exchanges.feeds import (
    Access,
    BookSequence,
    Feed,
    FeedConnection,
    Verdict,
    by_place,
    split_by_symbol,
    symbols_of,
)
from tardis_machine.exchanges.protocols.combined_feed import read_subscribe
from tardis_machine.exchanges.spec import Symbols, channel_filters
from tardis_machine.exchanges.venues.binance.option_summaries import coin_of, underlying_of
from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import Filter

OPTIONS = "binance-european-options"
BASE_URL = "wss://fstream.binance.com"

PUBLIC_CHANNELS = frozenset({"optionTrade", "depth20", "bookTicker", "optionTicker"})
"""What is streamed at `/public`; everything else is at `/market`."""

INTEREST = "optionOpenInterest"
BY_UNDERLYING = frozenset({"optionMarkPrice", "optionIndexPrice", INTEREST})

SPEEDS = {"depth20": "@100ms"}
MAX_SUBSCRIPTIONS = 200
"""Streams per connection."""

AT = "@"
"""Between an underlying and an expiry, in what live filters ask for."""


class ErrorData(msgspec.Struct):
    """What an error has for data."""

    e: str | None = None


class Answer(msgspec.Struct):
    """What tells refusals from other messages."""

    data: ErrorData | list[Any] | None = None
    error: Any = None


_answer = msgspec.json.Decoder(Answer)


def old_summary_filters(symbols: Symbols) -> list[Filter]:
    """Ask for options, their indexes and the open interest of their coins."""
    return [
        *channel_filters("ticker", convert=str.upper)(symbols),
        *channel_filters("index", convert=lambda name: underlying_of(name.upper()))(symbols),
        *channel_filters("openInterest", convert=lambda name: coin_of(name.upper()))(symbols),
    ]


def summary_filters(symbols: Symbols) -> list[Filter]:
    """Ask for options, and for mark prices and open interest of what they are on."""
    marks, interest = channel_filters(
        *("optionMarkPrice", INTEREST), convert=lambda name: underlying_of(name).lower()
    )(symbols)
    return [marks, *channel_filters("optionTicker", convert=str.lower)(symbols), interest]


def live_summary_filters(symbols: Symbols) -> list[Filter]:
    """Ask for the same; open interest is streamed by underlying and expiry."""
    marks, tickers, interest = summary_filters(symbols)
    if not symbols:
        return [marks, tickers, interest]
    expiries = [name for name in map(underlying_and_expiry, symbols) if name is not None]
    return [marks, tickers, Filter(INTEREST, tuple(dict.fromkeys(expiries)))]


def underlying_and_expiry(symbol: str) -> str | None:
    """Return `btcusdt@261225` for `BTC-261225-90000-C`; None when it is no option."""
    _, dash, rest = symbol.partition("-")
    expiry = rest.partition("-")[0]
    return f"{underlying_of(symbol)}{AT}{expiry}".lower() if dash else None


def connections(filters: Sequence[Filter], access: Access) -> list[FeedConnection]:
    """Return the connections of each address, as many as the limit makes necessary."""
    base = access.url(OPTIONS, BASE_URL).removesuffix("/stream")
    base = base.removesuffix("/public").removesuffix("/market")
    return [
        FeedConnection(url=f"{base}/{path}/stream", filters=part, frames=frames_of(part))
        for path, entries in by_place(filters, path_of).items()
        for part in split_by_symbol(entries, MAX_SUBSCRIPTIONS)
    ]


def path_of(channel: str) -> str:
    """Return the socket of a channel."""
    return "public" if channel in PUBLIC_CHANNELS else "market"


def frames_of(filters: Sequence[Filter], method: str = "SUBSCRIBE") -> tuple[str, ...]:
    """Return a frame per channel."""
    return tuple(
        msgspec.json.encode({"method": method, "params": streams_of(entry), "id": number}).decode()
        for number, entry in enumerate(filters, start=1)
    )


def streams_of(entry: Filter) -> list[str]:
    """Return the names of a channel's streams."""
    channel, symbols = entry.channel, symbols_of(OPTIONS, entry)
    if channel == INTEREST:
        return [interest_stream(symbol) for symbol in symbols]
    return [f"{symbol}@{channel}{SPEEDS.get(channel, '')}" for symbol in symbols]


def interest_stream(symbol: str) -> str:
    """Return the name of a stream of open interest.

    Raises:
        RequestError: the expiry is missing.
    """
    underlying, at, expiry = symbol.partition(AT)
    if not at:
        raise RequestError(
            f"{OPTIONS} streams {INTEREST!r} by underlying and expiry: "
            f"write {symbol}{AT}261225 instead of {symbol!r}."
        )
    return f"{underlying}@{INTEREST}@{expiry}"


def unsubscribe(filters: Sequence[Filter], _: Access) -> tuple[str, ...]:
    """Return the frames that leave filters."""
    return frames_of(filters, "UNSUBSCRIBE")


def judge(message: bytes) -> Verdict:
    """Find refusals."""
    answer = _answer.decode(message)
    is_error = isinstance(answer.data, ErrorData) and answer.data.e == "error"
    return Verdict.ERROR if is_error or answer.error is not None else Verdict.IGNORED


FEED = Feed(
    connections=connections,
    read_subscribe=read_subscribe,
    judge=judge,
    books=BookSequence.WHOLE,
    unsubscribe=unsubscribe,
    max_subscriptions=MAX_SUBSCRIPTIONS,
    grouped=dict.fromkeys(BY_UNDERLYING, str),
    joined=frozenset({"option_summary"}),
)
