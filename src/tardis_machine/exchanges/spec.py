"""What a venue module provides, and what is known about an exchange.

A venue module declares `msgspec.Struct`s for its wire messages, one `Mapper` class per data type,
and a `Venue` per exchange id. Messages are routed by their *tag* (`exchanges.tags`), the text that
tells channels apart. A `Normalizer` finds the tag of each line without decoding it, asks the
mappers once per distinct tag whether they accept it, and from then on decodes each line exactly
once into the struct its mappers read.

A venue that replaced its protocol has one `WireFormat` per generation. Ids, channels, data types
and the dates of all changes are declared in `exchanges.catalog`, for venues with mappers and
without.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar

import msgspec

from tardis_machine.exchanges.feeds import Feed, ReadSubscribe
from tardis_machine.exchanges.tags import Tag
from tardis_machine.model.records import Record
from tardis_machine.model.requests import Filter

Emit: TypeAlias = Callable[[Record], None]
"""Takes one record; in practice `list.append`."""

Symbols: TypeAlias = Sequence[str] | None
"""Requested symbols; None means all."""


Handler: TypeAlias = tuple[Any, Callable[[Any, str, Emit], None]]
"""The struct a message is decoded into (or `TextLevels`), and the function that emits its records.

The function takes the decoded message, its arrival time as wire text, and where records go.
"""


Kept = TypeVar("Kept", bound=dict[str, Any] | set[str])


class Mapper(ABC):
    """Turns messages of one venue into records of one data type; holds the state they need."""

    is_stateless: ClassVar[bool] = False
    """Whether what a message gives never depends on the messages before it."""

    checks_sequence: bool = False
    """Whether a missing book update is an error; set where it can be asked for again."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        self.exchange = exchange
        self.is_live = is_live
        self._kept: list[dict[str, Any] | set[str]] = []

    def keep(self, states: Kept) -> Kept:
        """Return what is going to be kept by symbol, so that `forget` finds it."""
        self._kept.append(states)
        return states

    def forget(self, symbol: str) -> None:
        """Drop what is known of a symbol, however it is written: messages of it may be missing."""
        for states in self._kept:
            drop_symbol(states, symbol)

    @abstractmethod
    def handler(self, tag: str) -> Handler | None:
        """Return who handles messages with this tag; None when they do not concern this mapper.

        Neighbouring handlers that name the same struct share the decoding.
        """


def drop_symbol(kept: dict[str, Any] | set[str], symbol: str) -> None:
    """Drop what is kept under a symbol, however either of them is written."""
    for name in [name for name in kept if name.upper() == symbol.upper()]:
        if isinstance(kept, dict):
            del kept[name]
        else:
            kept.discard(name)


class Version(msgspec.Struct, frozen=True):
    """One generation of a mapper, with the raw channels it reads."""

    mapper: type[Mapper]
    filters: Callable[[Symbols], list[Filter]]
    live_filters: Callable[[Symbols], list[Filter]] | None = None
    """Where a feed must be asked otherwise than recordings; None: by the same filters."""

    def filters_for(self, symbols: Symbols, *, is_live: bool) -> list[Filter]:
        """Return the raw filters of recordings, or of the live feed."""
        filters = (self.live_filters if is_live else None) or self.filters
        return filters(symbols)


class WireFormat(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of a venue's protocol."""

    tag: Tag
    locate: Callable[[str], Filter]
    """Reads the channel, and the symbols if they are part of it, from a tag.

    A filter without symbols means that the tag names none: `symbols` decides.
    """

    symbols: Callable[[bytes], tuple[str, ...]] | None = None
    """Reads the symbols of a message whose tag only names the channel.

    None, or no symbols: the message concerns the whole channel.
    """

    read_subscribe: ReadSubscribe
    """Reads the subscribe messages that clients of `/ws-replay` have always sent."""

    replays_whole_feed: bool = False
    """Whether any subscription brings all channels: messages cannot be told apart without the rest.

    The filters that are read are then none.
    """


class Venue(msgspec.Struct, frozen=True, kw_only=True):
    """What a venue module provides for one exchange id."""

    formats: tuple[WireFormat, ...]
    """Generations of the protocol, oldest first: one more than the catalog has format dates."""

    versions: Mapping[str, tuple[Version, ...]]
    """Data type -> generations, oldest first: one more than the catalog has switch dates."""

    feed: Feed | None = None
    """None while an exchange cannot be streamed live."""

    adapt: Callable[[Version, Mapping[str, str]], Version] = lambda version, _: version
    """Returns the version that serves whoever has the credentials of an environment."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one exchange id."""

    id: str
    channels: tuple[str, ...]
    data_types: tuple[str, ...]
    switches_us: Mapping[str, tuple[int, ...]] = {}
    """Data type -> the instants from which the next version serves it, ascending."""

    format_switches_us: tuple[int, ...] = ()
    """The instants from which messages are in the next wire format, ascending."""

    mapper_version: int = 1
    """Raised when the mappers make other records of the same messages than before."""

    load_venue: Callable[[], Venue] | None = None
    """Imports the venue's module; None while an exchange has no mappers yet."""

    @property
    def has_mappers(self) -> bool:
        """Say whether its messages can be normalized."""
        return self.load_venue is not None


Message = TypeVar("Message")


def one_symbol(
    struct: type[Message], read: Callable[[Message], str | None]
) -> Callable[[bytes], tuple[str, ...]]:
    """Build what reads the symbol of messages that are about one symbol, or about none."""
    decode = msgspec.json.Decoder(struct).decode

    def read_symbols(message: bytes) -> tuple[str, ...]:
        symbol = read(decode(message))
        return () if symbol is None else (symbol,)

    return read_symbols


def channel_filters(
    *channels: str, convert: Callable[[str], str] = str
) -> Callable[[Symbols], list[Filter]]:
    """Build the filter function of mappers that read the same symbols on each channel."""

    def filters(symbols: Symbols) -> list[Filter]:
        converted = None if symbols is None else tuple(map(convert, symbols))
        return [Filter(channel, converted) for channel in channels]

    return filters


def always(
    mapper: type[Mapper], *channels: str, convert: Callable[[str], str] = str
) -> tuple[Version, ...]:
    """Return the versions of a data type that never changed."""
    return (Version(mapper, channel_filters(*channels, convert=convert)),)
