"""What a venue module provides, and how mappers become one normalizer.

A venue module declares `msgspec.Struct`s for its wire messages, one `Mapper` class per data type,
and an `Exchange` per id. Messages are routed by their *tag*: the text that tells channels apart
(`"table"`, `"stream"`, …). A `Normalizer` finds the tag of each line without decoding it, asks the
mappers once per distinct tag whether they accept it, and from then on decodes each line exactly
once into the struct its mappers read.
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


class Mapper(ABC):
    """Turns messages of one venue into records of one data type; holds the state they need."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        self.exchange = exchange
        self.is_live = is_live

    @abstractmethod
    def handler(self, tag: str) -> Handler | None:
        """Return who handles messages with this tag; None when they do not concern this mapper.

        Handlers that name the same struct share the decoding.
        """


class Version(msgspec.Struct, frozen=True):
    """One generation of a mapper, with the raw channels it reads."""

    mapper: type[Mapper]
    filters: Callable[[Symbols], list[Filter]]
    since_us: int | None = None
    """None for the first generation: it serves everything before the next one."""


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


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one exchange id."""

    id: str
    channels: tuple[str, ...]
    versions: Mapping[str, tuple[Version, ...]] = {}
    """Data type -> generations, oldest first. Empty while an exchange has no mappers yet."""

    tag: Tag | None = None
    locate: Callable[[bytes], Address | None] | None = None
    """Reads the address of a raw message, to filter recordings of a whole feed locally."""

    subscription: Callable[[Any, int], list[Filter] | None] | None = None
    """Turns a native subscribe message of a replay that starts at a time into filters."""


def channel_filters(
    *channels: str, convert: Callable[[str], str] = str
) -> Callable[[Symbols], list[Filter]]:
    """Build the filter function of mappers that read the same symbols on each channel."""

    def filters(symbols: Symbols) -> list[Filter]:
        converted = None if symbols is None else tuple(map(convert, symbols))
        return [Filter(channel, converted) for channel in channels]

    return filters
