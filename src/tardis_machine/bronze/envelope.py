"""One encoded event and its identity."""

from collections.abc import Iterable

import msgspec
from google.protobuf.message import DecodeError

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.series import Series, series_label
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.time import SECOND_US


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
        raise EnvelopeError("The envelope has no payload known to this version.")
    case = PayloadCase(payload)
    name = getattr(event, payload).name if case.is_computed else ""
    local_us = event.local_ts.seconds * SECOND_US + event.local_ts.nanos // 1000
    source = event.source if event.origin == pb.ORIGIN_REALTIME else ""
    label = series_label(event.exchange, event.symbol, case, name)
    return _identity(label, local_us, event.ordinal, source)


def _identity(label: str, local_us: int, ordinal: int, source: str) -> str:
    identity = f"{label}:{local_us}:{ordinal}"
    return f"{identity}:{source}" if source else identity
