"""Reused envelope messages, one or a few per payload case."""

from collections.abc import Callable
from typing import Any, TypeAlias

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.times import Instant
from tardis_machine.bronze.writers import (
    WRITERS,
    MakeWriter,
    ReadTime,
    write_one_ask,
    write_one_bid,
)
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.records import AnyBookChange, EncodedBookChange

WriteBody: TypeAlias = Callable[[Any, Instant, int], bytes]


class EventWriter:
    """Holds the messages that all events of one payload case are written into.

    `write` takes a record, its local time and its ordinal and returns the part of the envelope
    that differs from event to event.
    """

    __slots__ = ("_case", "_read", "write")

    def __init__(self, case: PayloadCase, read: ReadTime) -> None:
        self._case = case
        self._read = read
        self.write = self._new_writer()

    def renew(self) -> None:
        """Start with new messages: a reused one keeps the memory of every string it ever held."""
        self.write = self._new_writer()

    def _new_writer(self) -> WriteBody:
        if self._case is PayloadCase.BOOK_CHANGE:
            return _book_change_writer(self._read)
        return _writer(self._case, WRITERS[self._case], self._read)


def _writer(case: PayloadCase, make_writer: MakeWriter, read: ReadTime) -> WriteBody:
    """Return what writes events of one payload case into one message."""
    event = pb.NormalizedEvent()
    payload = getattr(event, case)
    payload.SetInParent()
    local_ts, serialize = event.local_ts, event.SerializeToString
    write_payload = make_writer(payload, read)
    known_second = known_ordinal = known_digits = 0

    def write(record: Any, local: Instant, ordinal: int) -> bytes:
        nonlocal known_second, known_ordinal, known_digits
        second, local_ts.nanos, digits = local
        digits |= write_payload(record)
        # Most fields stay the same, and setting one costs more than to see that.
        if second != known_second:
            local_ts.seconds = known_second = second
        if ordinal != known_ordinal:
            event.ordinal = known_ordinal = ordinal
        if digits != known_digits:
            event.time_digits = known_digits = digits
        return serialize()

    return write


def _book_change_writer(read: ReadTime) -> WriteBody:
    """Return what writes book changes; those of one level, which most are, by a shorter way."""
    case = PayloadCase.BOOK_CHANGE
    write_bid, write_ask = _writer(case, write_one_bid, read), _writer(case, write_one_ask, read)
    write_levels = _writer(case, WRITERS[case], read)

    def write(record: AnyBookChange, local: Instant, ordinal: int) -> bytes:
        if isinstance(record, EncodedBookChange):
            record = record.decoded()
        bids, asks = record.bids, record.asks
        if len(bids) + len(asks) != 1:
            return write_levels(record, local, ordinal)
        return (write_bid if bids else write_ask)(record, local, ordinal)

    return write
