"""How a venue streams live, as data: no socket, no clock.

A feed turns filters into connections: where each leads, which frames it begins with, and which REST
calls complete it. It also says what a message means that no mapper reads. `sources.live` does what
a feed says and knows no venue.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

import msgspec

from tardis_machine.exchanges.filters import optimize_filters
from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import Filter

ReadSubscribe: TypeAlias = Callable[[Any], list[Filter] | None]
"""Turns a native subscribe message into filters.

Returns None for any other message and raises, whatever fits, for one that cannot be mapped.
"""


class Verdict(Enum):
    """What a message means that no mapper reads."""

    IGNORED = "ignored"
    """An acknowledgement, a greeting, or data nobody asked for: the connection is alive."""
    HEARTBEAT = "heartbeat"
    """Says that the connection is alive, but nothing about the market."""
    ERROR = "error"
    """The venue refused something; the connection starts over."""
    REJECTED = "rejected"
    """The venue refused one subscription; the others go on."""


class BookSequence(Enum):
    """How a live book is kept complete, in the words of the documents."""

    UNNUMBERED = "a snapshot, then updates without numbers: whole as long as the connection lasts"
    CHECKED = "a snapshot, then updates with checksums: one that does not fit starts the book over"
    NUMBERED = "a snapshot, then numbered updates: a gap starts the book over"
    NUMBERED_CHECKED = (
        "a snapshot, then numbered updates with checksums: "
        "a gap, or a checksum that does not fit, starts the book over"
    )
    REST = "a REST snapshot joined to numbered updates: a gap fetches another one"
    REST_BY_TIME = "a REST snapshot, then the updates that are newer: no numbers, no gaps noticed"
    REQUESTED = "a snapshot on request joined to numbered updates: a gap asks for another one"
    WHOLE = "every message is the whole book"


class Access(msgspec.Struct, frozen=True):
    """Who asks, and when: what credentials and addresses of the environment change."""

    environment: Mapping[str, str] = {}
    now_us: int = 0
    """When a login is signed."""

    def get(self, name: str) -> str:
        """Return a variable; an empty one counts as not set."""
        return self.environment.get(name, "")

    def has(self, *names: str) -> bool:
        """Say whether all of these variables are set."""
        return all(map(self.get, names))

    def credentials(self, exchange: str, names: Sequence[str]) -> list[str]:
        """Return the variables without which a venue streams nothing.

        Raises:
            RequestError: some of them are not set.
        """
        missing = [name for name in names if not self.get(name)]
        if missing:
            raise RequestError(
                f"{exchange} streams only to those who log in: set {', '.join(missing)}."
            )
        return [self.get(name) for name in names]

    def number(self, name: str, default: float) -> float:
        """Return a variable as a number.

        Raises:
            RequestError: it is not one.
        """
        text = self.get(name)
        try:
            return float(text) if text else default
        except ValueError as error:
            raise RequestError(f"{name} must be a number, got {text!r}.") from error

    def url(self, exchange: str, default: str) -> str:
        """Return the WebSocket address, which `WSS_URL_<EXCHANGE>` replaces."""
        return self.get(variable(exchange, "WSS_URL_", "")) or default


def variable(exchange: str, prefix: str = "", suffix: str = "") -> str:
    """Return the name of an environment variable about an exchange."""
    return f"{prefix}{exchange.upper().replace('-', '_')}{suffix}"


class WeightBudget(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests a venue accepts per minute, weighed by their cost."""

    limit_url: str
    """What tells the limit."""
    read_limit: Callable[[bytes], int]
    used_header: str
    """The response header that tells what was used in this minute."""
    limit: int | None = None
    """Instead of what the venue tells."""


class RestCalls(msgspec.Struct, frozen=True, kw_only=True):
    """GET requests whose answers become messages, one per symbol."""

    url: Callable[[str], str]
    wrap: Callable[[str, bytes], bytes]
    """Makes the message of a symbol from the answer."""
    weight: int = 1
    reserve: int = 0
    """Weight of the budget that is left to others."""
    concurrency: int = 4
    budget: WeightBudget | None = None


class Snapshots(msgspec.Struct, frozen=True, kw_only=True):
    """Books that begin with an answer, of the REST API or on the socket itself."""

    channel: str
    """Its first update of a symbol asks for the snapshot."""
    calls: RestCalls | None = None
    request: Callable[[str], str] | None = None
    """Writes the frame that asks for it; the answer comes as a message."""
    delay_seconds: float = 0.0
    """From the first update to the request."""


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """A value that only the REST API tells."""

    symbols: tuple[str, ...]
    calls: RestCalls
    interval_seconds: float
    split: Callable[[bytes], list[bytes]] | None = None
    """Cuts an answer about many symbols into their messages; None where it is one message."""


class AddressCall(msgspec.Struct, frozen=True, kw_only=True):
    """A POST request whose answer tells where to connect, such as one with a token."""

    url: str
    read: Callable[[bytes], str]
    """Finds the WebSocket address in the answer."""


class FeedConnection(msgspec.Struct, frozen=True, kw_only=True):
    """One socket of a live feed: where it leads, and what is sent once it is open."""

    url: str
    """Where it leads; with an `address` the name by which connections are told apart."""
    filters: tuple[Filter, ...]
    """What it brings."""
    frames: tuple[str, ...]
    """Subscribe; also sent alone, to add these filters to an open connection."""
    pause_seconds: float = 0.0
    """After each frame."""
    opening: tuple[str, ...] = ()
    """Sent before the frames, once per connection: logins, heartbeats to be switched on."""
    opening_pause_seconds: float = 0.0
    """After each opening frame."""
    address: AddressCall | None = None
    """Asked before every connection, instead of `url`."""
    headers: Mapping[str, str] = {}
    """Of the handshake, besides those that every venue gets."""
    snapshots: Snapshots | None = None
    polls: tuple[Poll, ...] = ()


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """What a venue wants from those who stream it."""

    connections: Callable[[Sequence[Filter], Access], list[FeedConnection]]
    """Turns filters into the sockets that bring what they ask for.

    Raises `RequestError` for what the venue does not stream.
    """

    read_subscribe: ReadSubscribe
    """Reads the frames of `connections`, as the venue does: the same filters come back."""

    judge: Callable[[bytes], Verdict]
    """Says what a message means that no mapper reads; whatever it raises makes it an error."""

    books: BookSequence = BookSequence.UNNUMBERED
    """How its books are kept complete."""

    unchecked: str = ""
    """What the venue tells about missing updates that is not looked at, and why."""

    unpack: Callable[[bytes], bytes] | None = None
    """Turns a binary frame into a message; None where the venue sends text alone."""

    ping: Callable[[Access], str] | None = None
    """Writes the venue's own kind of ping, sent every few seconds; None for ping frames."""

    answer: Callable[[bytes], str | None] = lambda _: None
    """Returns what a heartbeat must be answered with, None for nothing."""

    unsubscribe: Callable[[Sequence[Filter], Access], tuple[str, ...]] | None = None
    """Returns the frames that leave filters again; None where a venue has none for single ones."""

    replaces: bool = False
    """Whether a subscribe frame ends what was subscribed before, so that frames name all of it."""

    max_subscriptions: int | None = None
    """Most pairs of channel and symbol per connection."""

    whole_market: frozenset[str] = frozenset()
    """Channels that bring all symbols, whichever are asked for; their frames name none."""

    grouped: Mapping[str, Callable[[str], str]] = {}
    """Channels whose frames name a part of each symbol, such as the base currency, and so bring
    all symbols with that part; by channel the function that returns it."""

    generated: frozenset[str] = frozenset()
    """Channels whose messages are made from REST answers; no frame asks for them."""

    recorded_only: frozenset[str] = frozenset()
    """Channels that exist in recordings alone."""

    joined: frozenset[str] = frozenset()
    """Data types whose records are made of messages of several connections."""

    credentials: tuple[str, ...] = ()
    """Variables without which the venue streams nothing."""


def symbols_of(exchange: str, entry: Filter) -> tuple[str, ...]:
    """Return the symbols of a filter.

    Raises:
        RequestError: it names none, and the venue streams the channel by symbol only.
    """
    if not entry.symbols:
        raise RequestError(
            f"{exchange} requires explicitly specified symbols to stream {entry.channel!r}: "
            "name those you want."
        )
    return entry.symbols


def streamed(filters: Iterable[Filter], recorded_only: Container[str]) -> tuple[Filter, ...]:
    """Return merged filters without the channels that exist in recordings alone."""
    return tuple(entry for entry in optimize_filters(filters) if entry.channel not in recorded_only)


def by_place(
    filters: Iterable[Filter], place_of: Callable[[str], str]
) -> dict[str, tuple[Filter, ...]]:
    """Return merged filters by where their channel is streamed, in the order of the channels."""
    found: dict[str, list[Filter]] = {}
    for entry in optimize_filters(filters):
        found.setdefault(place_of(entry.channel), []).append(entry)
    return {place: tuple(entries) for place, entries in found.items()}


def subscription_count(filters: Iterable[Filter]) -> int:
    """Return how many pairs of channel and symbol filters ask for."""
    return sum(len(entry.symbols or ("",)) for entry in filters)


def without(filters: Iterable[Filter], dropped: Iterable[Filter]) -> list[Filter]:
    """Return what is left of filters; a dropped one has the symbols to leave out, or none: all."""
    gone = {entry.channel: entry.symbols for entry in dropped}
    left = []
    for entry in filters:
        if entry.channel not in gone:
            left.append(entry)
        elif symbols := tuple(
            symbol for symbol in entry.symbols or () if symbol not in (gone[entry.channel] or ())
        ):
            left.append(Filter(entry.channel, symbols))
    return left


def split_by_symbol(filters: Sequence[Filter], most: int) -> Iterator[tuple[Filter, ...]]:
    """Spread filters over connections with at most `most` subscriptions each.

    All channels of a symbol stay together, because one record may be made of several.
    """
    filters = optimize_filters(filters)
    if subscription_count(filters) <= most:
        yield filters
        return
    channels: dict[str, list[str]] = {}
    for entry in filters:
        for symbol in entry.symbols or ("",):
            channels.setdefault(symbol, []).append(entry.channel)
    group: dict[str, list[str]] = {}
    for symbol in sorted(channels):
        if group and sum(map(len, group.values())) + len(channels[symbol]) > most:
            yield _joined(group)
            group = {}
        group[symbol] = channels[symbol]
    yield _joined(group)


def _joined(channels: Mapping[str, Sequence[str]]) -> tuple[Filter, ...]:
    """Return the filters of a group of symbols."""
    symbols: dict[str, list[str]] = {}
    for symbol, names in channels.items():
        for name in names:
            symbols.setdefault(name, []).append(symbol)
    return optimize_filters(
        Filter(name, None if found == [""] else tuple(found)) for name, found in symbols.items()
    )
