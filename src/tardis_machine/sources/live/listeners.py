"""Who hears what a feed brings: clients, publishing, recorders.

A client listens to the feed it asked for. A *tap* listens to every socket of a feed, from its first
message on and exactly once, whoever asked for it: `LiveSource(taps=…)` takes functions that make
them. Publishing overrides `take_records`, and `failed` and `lost`, whose arguments make the feed's
`FeedError` and `Disconnect` records; a recorder sets `wants_messages` and overrides `take_message`,
`lost`, `left` and `closed`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import UNSET, Struct

from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.records import Record
from tardis_machine.model.requests import Filter


class Failure(Struct, frozen=True):
    """A connection, a request or a message of a feed failed."""

    exchange: str
    details: str
    local_timestamp: str
    count: int
    """How many failures of this socket followed each other without data in between."""

    def record(self) -> FeedError:
        """Return what consumers of the feed itself are told."""
        return FeedError(
            exchange=self.exchange,
            local_timestamp=self.local_timestamp,
            details=self.details,
            subsequent_errors_count=self.count,
        )


class Loss(Struct, frozen=True, kw_only=True):
    """What a feed brought of these types and symbols may miss something: it starts over."""

    exchange: str
    data_types: frozenset[str]
    symbols: frozenset[str] | None
    """In upper case; None for all."""
    filters: tuple[Filter, ...]
    local_timestamp: str
    """When the last message came; no two losses of an exchange are of the same time."""
    reason: str
    is_whole_socket: bool = False
    """Whether the socket brings nothing else."""

    def concerns(self, symbol: str) -> bool:
        """Say whether it is about a symbol, however it is written."""
        return self.symbols is None or symbol.upper() in self.symbols

    def record(self) -> Disconnect:
        """Return what consumers of the feed itself are told."""
        symbols = UNSET if self.symbols is None else sorted(self.symbols)
        return Disconnect(
            exchange=self.exchange, local_timestamp=self.local_timestamp, symbols=symbols
        )


class FeedListener:
    """Hears what a feed brings; override what is of interest. Nothing here may block."""

    wants_messages = False
    """Whether `take_message` is called."""

    def take_records(self, records: Sequence[Record]) -> None:
        """Take the records of some messages, in order."""

    def take_message(self, local_us: int, message: bytes) -> None:
        """Take a message as it came, or as it was made from a REST answer."""

    def failed(self, failure: Failure) -> None:
        """Hear that something failed."""

    def lost(self, loss: Loss) -> None:
        """Hear that something was lost."""

    def left(self, loss: Loss) -> None:
        """Hear that nobody wants something any more, and that it does not come any longer."""

    def closed(self) -> None:
        """Hear that the feed ended."""


class FeedKey(NamedTuple):
    """Which requests share a feed."""

    exchange: str
    timeout_seconds: float | None = None
    """What a client said explicitly; None for all who said nothing."""
    is_whole: bool = False
    """Whether it brings whole channels; what names symbols comes from another feed."""


Tap: TypeAlias = Callable[[FeedKey], FeedListener]
"""Makes the tap of a feed."""
