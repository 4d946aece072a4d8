"""Records of a live feed that came together."""

from collections.abc import Iterable
from functools import cached_property

from tardis_machine.model.data_types import BookSnapshotSpec, ComputedSpec
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import (
    BookChange,
    BookSnapshot,
    EncodedBookChange,
    EncodedBookSnapshot,
    Record,
)

RECORD_BYTES = 500
LEVEL_BYTES = 150
"""What a record and each level of a book take in memory, as objects and as text, more or less."""

CHUNK_BYTES = 128 * 1024
"""What a chunk takes in memory, more or less: a client that does not read holds one or two."""


def records_at_once(computed: Iterable[ComputedSpec]) -> int:
    """Return how many records make a chunk, fewer the more levels each may have."""
    specs = [spec for spec in computed if isinstance(spec, BookSnapshotSpec)]
    levels = 2 * max((spec.depth for spec in specs), default=0)
    return max(1, CHUNK_BYTES // (RECORD_BYTES + LEVEL_BYTES * levels))


def _size_bytes(record: Record) -> int:
    match record:
        case BookChange() | BookSnapshot():
            return RECORD_BYTES + LEVEL_BYTES * (len(record.bids) + len(record.asks))
        case EncodedBookChange():
            texts = [record.bid_text, record.ask_text]
        case EncodedBookSnapshot():
            texts = [*record.bids, *record.asks]
        case _:
            return RECORD_BYTES
    # Once in the record, and once in the line that is sent.
    return RECORD_BYTES + 2 * sum(memoryview(text).nbytes for text in texts)


class LiveChunk:
    """Records that came together, encoded once for all clients."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self.holders = 0
        """Clients for which it waits."""

    @cached_property
    def size_bytes(self) -> int:
        """Return what it takes in memory."""
        return sum(map(_size_bytes, self.records))

    @cached_property
    def lines(self) -> list[bytes]:
        """Return each record as JSON."""
        return encode_lines(self.records).splitlines()
