"""One encoded event and its identity."""

from collections.abc import Iterable

import msgspec
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.series import Series, identity_end, series_label
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
    local_us = _microseconds(event.local_ts)
    source = event.source if event.origin == pb.ORIGIN_REALTIME else ""
    label = series_label(event.exchange, event.symbol, case, name)
    end = identity_end(source, state_from_us(event), event.recorder)
    return f"{label}:{local_us}:{event.ordinal}{end}"


def state_from_us(event: pb.NormalizedEvent) -> int | None:
    """Return when mapping began, where the content may lack what came before."""
    return _microseconds(event.state_from) if event.HasField("state_from") else None


def _microseconds(time: Timestamp) -> int:
    return int(time.seconds) * SECOND_US + int(time.nanos) // 1000
