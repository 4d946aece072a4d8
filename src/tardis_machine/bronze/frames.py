"""One reused envelope message per payload case."""

from collections.abc import Callable
from typing import Any, TypeAlias

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.times import Instant
from tardis_machine.bronze.writers import WRITERS, ReadTime
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb

WriteBody: TypeAlias = Callable[[Any, Instant, int], bytes]


class Frame:
    """Holds the message that all events of one payload case are written into.

    `write` takes a record, its local time and its ordinal and returns the part of the envelope
    that differs from event to event.
    """

    __slots__ = ("_case", "_read", "write")

    def __init__(self, case: PayloadCase, read: ReadTime) -> None:
        self._case = case
        self._read = read
        self.write = self._new_writer()

    def renew(self) -> None:
        """Start a new message: a reused one keeps the memory of every string it ever held."""
        self.write = self._new_writer()

    def _new_writer(self) -> WriteBody:
        event = pb.NormalizedEvent()
        payload = getattr(event, self._case)
        payload.SetInParent()
        local_ts, serialize = event.local_ts, event.SerializeToString
        write_payload = WRITERS[self._case](payload, self._read)

        def write(record: Any, local: Instant, ordinal: int) -> bytes:
            local_ts.seconds, local_ts.nanos, digits = local
            event.ordinal = ordinal
            event.time_digits = digits | write_payload(record)
            return serialize()

        return write
