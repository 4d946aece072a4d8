"""One encoded event, the series it belongs to, and its identity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec
from google.protobuf.message import DecodeError

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.time import SECOND_US


class Origin(StrEnum):
    """How records came to the producer."""

    REALTIME = "realtime"
    REPLAY = "replay"
    ARCHIVE = "archive"

    @property
    def number(self) -> pb.Origin:
        """Return the value of the envelope's `origin`."""
        return _ORIGIN_NUMBERS[self]


_ORIGIN_NUMBERS = {
    Origin.REALTIME: pb.ORIGIN_REALTIME,
    Origin.REPLAY: pb.ORIGIN_REPLAY,
    Origin.ARCHIVE: pb.ORIGIN_ARCHIVE,
}


@dataclass(frozen=True, eq=False, slots=True)
class Series:
    """What the events of one stream with the same exchange, symbol, case and name share.

    Series are compared by identity: one stream makes one object per series, so that whatever is
    derived from it (destination, key, headers) can be cached under it.
    """

    case: PayloadCase
    exchange: str
    symbol: str
    name: str
    """The requested data type of computed records; empty for others."""
    source: str
    origin: Origin
    meta: Mapping[str, str]
    """Ingest metadata of the stream; the envelopes hold `data_type` besides."""
    data_type: str = field(init=False)
    """The name of computed records, the record type of others."""
    label: str = field(init=False)
    """The part of the identity that all events of the series share."""
    identity_end: str = field(init=False)
    """The last part of the identity: `:source` where that belongs to it."""

    def __post_init__(self) -> None:
        label = _label(self.exchange, self.symbol, self.case, self.name)
        object.__setattr__(self, "label", label)
        is_live = self.origin is Origin.REALTIME
        object.__setattr__(self, "identity_end", f":{self.source}" if is_live else "")
        object.__setattr__(self, "data_type", self.case.data_type(self.name))


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """One event as bytes, with what routing and headers need beside them."""

    series: Series
    local_us: int
    ordinal: int
    data: bytes

    @property
    def identity(self) -> str:
        """Return the same text for every copy of this event."""
        return identities((self,))[0]


def identities(envelopes: Iterable[Envelope]) -> list[str]:
    """Return the identity of each envelope; for lists, in half the time of asking one by one."""
    return [
        f"{each.series.label}:{each.local_us}:{each.ordinal}{each.series.identity_end}"
        for each in envelopes
    ]


def parse_event(data: bytes) -> pb.NormalizedEvent:
    """Parse envelope bytes; EnvelopeError when they are not Protobuf."""
    try:
        return pb.NormalizedEvent.FromString(data)
    except DecodeError as error:
        raise EnvelopeError(f"{len(data)} bytes are not a NormalizedEvent: {error}") from error


def identity(event: pb.NormalizedEvent) -> str:
    """Return the identity of a parsed envelope; EnvelopeError when it holds no known payload."""
    payload = event.WhichOneof("payload")
    if payload is None:
        raise EnvelopeError("The envelope holds no payload that this version knows.")
    case = PayloadCase(payload)
    name = getattr(event, payload).name if case.is_computed else ""
    local_us = event.local_ts.seconds * SECOND_US + event.local_ts.nanos // 1000
    source = event.source if event.origin == pb.ORIGIN_REALTIME else ""
    label = _label(event.exchange, event.symbol, case, name)
    return _identity(label, local_us, event.ordinal, source)


def _label(exchange: str, symbol: str, case: PayloadCase, name: str) -> str:
    label = f"{exchange}:{symbol}:{case.value}"
    return f"{label}:{name}" if name else label


def _identity(label: str, local_us: int, ordinal: int, source: str) -> str:
    identity = f"{label}:{local_us}:{ordinal}"
    return f"{identity}:{source}" if source else identity
