"""Records to envelopes, a list at a time.

An envelope is written as three concatenated parts, which Protobuf reads as one message: what its
series shares (encoded once per series), the ingest time (once per list), and the event itself.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from tardis_machine.bronze import envelope
from tardis_machine.bronze.blocks import (
    LeftOut,
    MakeBlockEncoder,
    OnReject,
    PythonBlockEncoder,
)
from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.content import NO_CONTENTS, Content
from tardis_machine.bronze.envelope import Envelope
from tardis_machine.bronze.event_writers import EventWriter
from tardis_machine.bronze.ordinals import Ordinals
from tardis_machine.bronze.series import Origin
from tardis_machine.bronze.slots import Slots, Stream
from tardis_machine.bronze.times import time_reader
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.compiled import compiled_module
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.records import EncodedBookChange, EncodedBookSnapshot
from tardis_machine.model.time import SECOND_US

_EVENTS_PER_MESSAGE = 4096

_compiled = compiled_module("tardis_machine.bronze.compiled_blocks")
make_block_encoder: MakeBlockEncoder = (
    PythonBlockEncoder if _compiled is None else _compiled.CompiledBlockEncoder
)
identities: Callable[[Sequence[Envelope]], list[str]] = (
    envelope.identities if _compiled is None else _compiled.identities
)


def refuse(_: int, error: EnvelopeError) -> None:
    """Stop at the first record that cannot be encoded."""
    raise error


class Encoder:
    """Encodes the records of one stream.

    Args:
        source: Id of the producer.
        origin: How the records came to the producer.
        meta: Ingest metadata of the stream; `data_type` is added per series.
        cases: Payload cases to encode; records of others are counted for ordinals only.
        ordinals: Counts of the records before; none by default.
        contents: How the records were made, by exchange; by default they are complete.
        make_blocks: Makes what encodes blocks of records.
    """

    def __init__(
        self,
        source: str,
        origin: Origin,
        meta: Mapping[str, str] | None = None,
        *,
        cases: Collection[PayloadCase] = frozenset(PayloadCase),
        ordinals: Ordinals | None = None,
        contents: Mapping[str, Content] = NO_CONTENTS,
        make_blocks: MakeBlockEncoder = make_block_encoder,
    ) -> None:
        self.ordinals = ordinals or Ordinals()
        self.left_out: LeftOut = Counter()
        """Records of other cases, since somebody emptied it."""
        read_time = time_reader()
        self._writers = {case: EventWriter(case, read_time) for case in cases}
        self._events_in_messages = 0
        stream = Stream(source, origin, dict(meta or {}), self._writers, contents)
        types = {case.record_type for case in PayloadCase}
        types |= {EncodedBookChange, EncodedBookSnapshot}
        slots_of = {record_type: Slots(record_type, stream) for record_type in types}
        self._blocks = make_blocks(slots_of, read_time, self.ordinals)

    def encode(self, records: Sequence[NormalizedRecord], ingest_us: int) -> list[Envelope]:
        """Encode records in their order; EnvelopeError at the first that does not fit.

        Args:
            records: of the stream.
            ingest_us: the time now.
        """
        return [each for each in self.encode_each(records, ingest_us, refuse) if each is not None]

    def encode_each(
        self, records: Sequence[NormalizedRecord], ingest_us: int, on_reject: OnReject
    ) -> list[Envelope | None]:
        """Encode records in their order: one envelope for each, None where there is none.

        Args:
            records: of the stream.
            ingest_us: the time now.
            on_reject: called with the place of a record that does not fit into an envelope.
        """
        stamp = _ingest_stamp(ingest_us)
        envelopes: list[Envelope | None] = []
        for start in range(0, len(records), _EVENTS_PER_MESSAGE):
            block = records[start : start + _EVENTS_PER_MESSAGE]
            self._renew_messages(len(block))
            self._blocks.encode(block, stamp, self.left_out, envelopes, on_reject)
        return envelopes

    def _renew_messages(self, count: int) -> None:
        self._events_in_messages += count
        if self._events_in_messages > _EVENTS_PER_MESSAGE:
            self._events_in_messages = count
            for writer in self._writers.values():
                writer.renew()


def _ingest_stamp(ingest_us: int) -> bytes:
    """Encode the ingest time."""
    event = pb.NormalizedEvent()
    seconds, rest = divmod(ingest_us, SECOND_US)
    event.ingest_ts.seconds = seconds
    event.ingest_ts.nanos = rest * 1000
    return event.SerializeToString()
