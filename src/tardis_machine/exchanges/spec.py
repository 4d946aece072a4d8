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
from typing import Any, ClassVar, TypeAlias

import msgspec

from tardis_machine.exchanges.tags import Tag
from tardis_machine.model.records import Record
from tardis_machine.model.requests import Filter

Emit: TypeAlias = Callable[[Record], None]
"""Takes one record; in practice `list.append`."""

Symbols: TypeAlias = Sequence[str] | None
"""Requested symbols; None means all."""


Handler: TypeAlias = tuple[Any, Callable[[Any, str, Emit], None]]
"""The struct a message is decoded into, and the function that emits its records.

The function takes the decoded message, its arrival time as wire text, and where records go.
"""

ReadSubscribe: TypeAlias = Callable[[Any], list[Filter] | None]
"""Turns a native subscribe message into filters.

Returns None for any other message and raises, whatever fits, for one that cannot be mapped.
"""


class Mapper(ABC):
    """Turns messages of one venue into records of one data type; holds the state they need."""

    is_stateless: ClassVar[bool] = False
    """Whether what a message gives never depends on the messages before it."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        self.exchange = exchange
        self.is_live = is_live

    @abstractmethod
    def handler(self, tag: str) -> Handler | None:
        """Return who handles messages with this tag; None when they do not concern this mapper.

        Neighbouring handlers that name the same struct share the decoding.
        """


class Version(msgspec.Struct, frozen=True):
    """One generation of a mapper, with the raw channels it reads."""

    mapper: type[Mapper]
    filters: Callable[[Symbols], list[Filter]]


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


class FeedConnection(msgspec.Struct, frozen=True, kw_only=True):
    """One socket of a live feed: where it leads, and what is sent once it is open."""

    url: str
    frames: tuple[str, ...]
    pause_seconds: float = 0.0
    """Between two frames."""


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """How a venue streams live, as data: no socket, no clock."""

    connections: Callable[[Sequence[Filter]], list[FeedConnection]]
    """Turns filters into the sockets that bring what they ask for."""

    read_subscribe: ReadSubscribe
    """Reads the frames of `connections`, as the venue does: the same filters come back."""

    whole_market: frozenset[str] = frozenset()
    """Channels that bring all symbols, whichever are asked for; their frames name none."""

    recorded_only: frozenset[str] = frozenset()
    """Channels that exist in recordings alone."""


class Venue(msgspec.Struct, frozen=True, kw_only=True):
    """What a venue module provides for one exchange id."""

    formats: tuple[WireFormat, ...]
    """Generations of the protocol, oldest first: one more than the catalog has format dates."""

    versions: Mapping[str, tuple[Version, ...]]
    """Data type -> generations, oldest first: one more than the catalog has switch dates."""

    feed: Feed | None = None
    """None while an exchange cannot be streamed live."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one exchange id."""

    id: str
    channels: tuple[str, ...]
    data_types: tuple[str, ...]
    switches_us: Mapping[str, tuple[int, ...]] = {}
    """Data type -> the instants from which the next version serves it, ascending."""

    format_switches_us: tuple[int, ...] = ()
    """The instants from which messages are in the next wire format, ascending."""

    load_venue: Callable[[], Venue] | None = None
    """Imports the venue's module; None while an exchange has no mappers yet."""

    @property
    def has_mappers(self) -> bool:
        """Say whether its messages can be normalized."""
        return self.load_venue is not None


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
