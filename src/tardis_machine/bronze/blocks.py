"""The loop over the records of a block: the hottest place of a publisher.

`compiled_blocks.pyx` has the same in Cython, several times faster, for where it could be built.
This one says what is right: both give the same envelopes, byte for byte.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from tardis_machine.bronze.cases import AnyCase
from tardis_machine.bronze.envelope import Envelope
from tardis_machine.bronze.ordinals import Ordinals
from tardis_machine.bronze.slots import Slots
from tardis_machine.bronze.writers import ReadTime
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.records import Record
from tardis_machine.model.time import SECOND_US

OnReject: TypeAlias = Callable[[int, EnvelopeError], None]
LeftOut: TypeAlias = Counter[AnyCase]
SlotsOf: TypeAlias = Mapping[type[Record], Slots]


class BlockEncoder(Protocol):
    """Encodes the records of one stream."""

    def encode(
        self,
        records: Sequence[NormalizedRecord],
        stamp: bytes,
        left_out: LeftOut,
        envelopes: list[Envelope | None],
        on_reject: OnReject,
    ) -> None:
        """Append an envelope for each record, None where there is none.

        Args:
            records: of the stream.
            stamp: the ingest time, encoded.
            left_out: counts the records of cases that nobody wants.
            envelopes: where to.
            on_reject: called with the place of a record that does not fit into an envelope.
        """


MakeBlockEncoder: TypeAlias = Callable[[SlotsOf, ReadTime, Ordinals], BlockEncoder]


class PythonBlockEncoder:
    """Encodes the records of one stream, without compiled code.

    Args:
        slots_of: by record type, the series and what writes their events.
        read_time: parses the times of records.
        ordinals: counts of the records before.
    """

    def __init__(self, slots_of: SlotsOf, read_time: ReadTime, ordinals: Ordinals) -> None:
        self._slots_of = slots_of
        self._read_time = read_time
        self._ordinals = ordinals

    def encode(
        self,
        records: Sequence[NormalizedRecord],
        stamp: bytes,
        left_out: LeftOut,
        envelopes: list[Envelope | None],
        on_reject: OnReject,
    ) -> None:
        """Append an envelope for each record, None where there is none."""
        slots_of, read_time, ordinals = self._slots_of, self._read_time, self._ordinals
        append = envelopes.append
        # The records of one message stand together and have the same local time.
        local_text, local, local_us = None, (0, 0, 0), 0
        counts: dict[str, int] = {}
        for record in records:
            try:
                slots = slots_of[type(record)]
                slot = slots[slots.key(record)]
                if record.local_timestamp != local_text:
                    local = read_time(record.local_timestamp)
                    local_us = local[0] * SECOND_US + local[1] // 1000
                    local_text = record.local_timestamp
                    counts = ordinals.at(local_us)
                label = slot.label
                ordinal = counts.get(label, 0)
                counts[label] = ordinal + 1
                if slot.writer is None:
                    left_out[slot.series.case] += 1
                    append(None)
                    continue
                body = slot.writer.write(record, local, ordinal)
                if slot.partial is not None:
                    slot = slot.at(local_us)
            except (ValueError, TypeError, LookupError, OverflowError) as error:
                on_reject(len(envelopes), rejection(record, error))
                append(None)
                continue
            append(Envelope(slot.series, local_us, ordinal, slot.head + stamp + body))


def rejection(record: NormalizedRecord, error: Exception) -> EnvelopeError:
    """Say which record does not fit into an envelope, and why."""
    where = getattr(record, "exchange", ""), getattr(record, "symbol", "")
    return EnvelopeError(
        f"{type(record).__name__} of {':'.join(where)} cannot be encoded: "
        f"{type(error).__name__}: {error}"
    )
