"""What both markets share: messages about a topic, and books that begin with a REST answer."""

from typing import Generic, TypeVar

from msgspec import Struct

from tardis_machine.exchanges.levels import Level
from tardis_machine.exchanges.protocols import combined_depth
from tardis_machine.exchanges.protocols.combined_depth import DepthData
from tardis_machine.exchanges.spec import Emit

Data = TypeVar("Data")


class Push(Struct, Generic[Data], gc=False):
    """A message about a topic, which names channel and symbol."""

    topic: str
    data: Data


class SnapshotData(Struct, gc=False):
    """All levels of a book, or as many as the venue tells."""

    sequence: int
    bids: list[Level] | None = None
    asks: list[Level] | None = None


class SnapshotMessage(Struct, gc=False):
    """A message made from a REST answer; a refused one has no data."""

    topic: str
    data: SnapshotData | None = None


class BookMapper(combined_depth.BookMapper):
    """Joins updates to a snapshot as combined streams do, but for what is said here."""

    def joins(self, delta: DepthData, snapshot_id: int) -> bool:
        """Say whether a delta directly continues the snapshot; one without a number fits all."""
        return snapshot_id in (-1, 0) or delta.U <= snapshot_id + 1 <= delta.u

    def map_snapshot(self, message: SnapshotMessage, local: str, emit: Emit) -> None:
        """Emit the snapshot with the updates that came before it, once."""
        data = message.data
        if data is None:
            return
        depth = DepthData(bids=data.bids or [], asks=data.asks or [])
        self._map_snapshot(symbol_of(message.topic), depth, data.sequence, local, emit)


def symbol_of(topic: str) -> str:
    """Return the symbol of a topic."""
    return topic.partition(":")[2]
