"""Envelopes to records, a list at a time."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.readers import READERS
from tardis_machine.bronze.times import time_writer
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord

Outcome: TypeAlias = NormalizedRecord | EnvelopeError

_LAST_PAYLOAD = max(
    field.number for field in pb.NormalizedEvent.DESCRIPTOR.oneofs_by_name["payload"].fields
)


class UnknownPayloadError(EnvelopeError):
    """The envelope holds a payload of a newer schema; a newer version can read it."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(
            f"The payload in field {number} is not known to this version: the producer is newer."
        )


class Decoder:
    """Decodes envelopes; one object per thread."""

    def __init__(self) -> None:
        self._read = _record_reader()

    def decode(self, envelopes: Iterable[bytes]) -> list[NormalizedRecord]:
        """Return one record per envelope; EnvelopeError at the first that cannot be read."""
        read = self._read
        return [read(data) for data in envelopes]

    def decode_each(self, envelopes: Iterable[bytes]) -> list[Outcome]:
        """Return per envelope its record or the error that says why there is none."""
        return [self._outcome(data) for data in envelopes]

    def _outcome(self, data: bytes) -> Outcome:
        try:
            return self._read(data)
        except EnvelopeError as error:
            return error


def _record_reader() -> Callable[[bytes], NormalizedRecord]:
    parse, text = pb.NormalizedEvent.FromString, time_writer()
    readers = {case.value: READERS[case] for case in PayloadCase}

    def read(data: bytes) -> NormalizedRecord:
        try:
            event = parse(data)
            case = event.WhichOneof("payload")
            if case is None:
                raise missing_payload(event)
            digits = event.time_digits
            local = text(event.local_ts, digits & 1)
            return readers[case](event, getattr(event, case), local, digits, text)
        except (DecodeError, ValueError, LookupError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise EnvelopeError(f"{len(data)} bytes are not an envelope: {reason}") from error

    return read


def missing_payload(event: pb.NormalizedEvent) -> EnvelopeError:
    """Say why an envelope without a known payload cannot be read."""
    unknown = UnknownFieldSet(event)
    for position in range(len(unknown)):
        number = unknown[position].field_number
        if number > _LAST_PAYLOAD:
            return UnknownPayloadError(number)
    return EnvelopeError("The envelope has no payload.")
