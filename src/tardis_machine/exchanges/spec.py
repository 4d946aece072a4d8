"""What a venue module provides, and what is known about an exchange.

A venue module declares `msgspec.Struct`s for its wire messages, one `Mapper` class per data type,
and a `Venue` per exchange id. Messages are routed by their *tag*: the text that tells channels
apart (`"table"`, `"stream"`, …). A `Normalizer` finds the tag of each line without decoding it,
asks the mappers once per distinct tag whether they accept it, and from then on decodes each line
exactly once into the struct its mappers read.

Ids, channels, data types and switch dates are declared in `exchanges.catalog`, for venues with
mappers and without.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

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

Subscription: TypeAlias = Callable[[Any, int], list[Filter] | None]
"""Turns a native subscribe message of a replay that starts at a time into filters.

Returns None for any other message and raises, whatever fits, for one that cannot be mapped.
"""


class Mapper(ABC):
    """Turns messages of one venue into records of one data type; holds the state they need."""

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


class Tag(msgspec.Struct, frozen=True):
    """Where a venue's messages carry the text that tells channels apart."""

    prefix: bytes
    """How messages start, up to and including the quote before the tag, in the usual key order."""

    message: Any
    """A struct that reads just the tag, for messages in another key order."""

    read: Callable[[Any], str | None]
    """Returns the tag of such a struct; None for messages without one, which are ignored."""


class Address(msgspec.Struct, frozen=True):
    """The channel and symbols a raw message belongs to, as filters name them."""

    channel: str
    symbols: tuple[str, ...] = ()
    """Empty when the message concerns the whole channel."""


class Venue(msgspec.Struct, frozen=True, kw_only=True):
    """What a venue module provides for one exchange id."""

    versions: Mapping[str, tuple[Version, ...]]
    """Data type -> generations, oldest first: one more than the catalog has switch dates."""

    tag: Tag
    address: Callable[[str], Address]
    """Reads the channel, and the symbols if they are part of it, from a tag."""

    symbols: Callable[[bytes], tuple[str, ...]] | None = None
    """Reads the symbols of a message whose tag only names the channel."""

    subscription: Subscription


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one exchange id."""

    id: str
    channels: tuple[str, ...]
    data_types: tuple[str, ...]
    switches_us: Mapping[str, tuple[int, ...]] = {}
    """Data type -> the instants from which the next version serves it, ascending."""

    venue: Venue | None = None
    """None while an exchange has no mappers yet."""

    def __post_init__(self) -> None:
        if self.venue is None:
            return
        declared = {name: len(self.switches_us.get(name, ())) + 1 for name in self.data_types}
        provided = {name: len(versions) for name, versions in self.venue.versions.items()}
        if declared != provided:
            raise ValueError(f"{self.id}: the catalog needs versions {declared}, not {provided}")

    @property
    def subscription(self) -> Subscription | None:
        """Return the reader of native subscribe messages, if there is one."""
        return None if self.venue is None else self.venue.subscription


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
