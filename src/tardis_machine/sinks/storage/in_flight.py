"""Chunks that were read and are not wholly settled, and the position that follows from them."""

from collections import deque
from collections.abc import Iterator

from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.positions import Position

_COUNTED_BEFORE = 255
"""Stands for events that a saved position has counted already."""


class ChunkInFlight:
    """One chunk on its way: what became of each of its events so far."""

    __slots__ = ("end", "number", "outcomes", "owner", "prefix", "start")

    def __init__(self, owner: object, start: int, end: int, number: int, events: int) -> None:
        self.owner = owner
        """Who reads the log."""
        self.start = start
        self.end = end
        self.number = number
        self.outcomes = bytearray(events)
        """One `Settled` per event; whoever settles an event writes it here."""
        self.prefix = 0
        """How many events from the first one on are settled and counted."""

    @property
    def waiting(self) -> int:
        """Return how many events are not settled."""
        return self.outcomes.count(Settled.WAITING)

    def settle_all(self, settled: Settled) -> None:
        """Settle every event in one way."""
        self.outcomes = bytearray([settled]) * len(self.outcomes)

    def settle_rest(self, settled: Settled) -> None:
        """Settle every event that waits in one way."""
        self.outcomes = self.outcomes.replace(bytes([Settled.WAITING]), bytes([settled]))

    def note(self, outcomes: bytes) -> None:
        """Settle what waits as these outcomes say; zeros leave an event waiting."""
        if self.waiting == len(self.outcomes):
            self.outcomes = bytearray(outcomes)
            return
        for line, settled in enumerate(outcomes):
            if not self.outcomes[line]:
                self.outcomes[line] = settled

    def skip(self, lines: int) -> None:
        """Leave out the first events: a saved position counts them already."""
        self.outcomes[:lines] = bytes([_COUNTED_BEFORE]) * lines
        self.prefix = lines


class InFlight:
    """The chunks of one log that were read, in their order."""

    def __init__(self, position: Position) -> None:
        self.position = position
        """Everything before it is settled."""
        self._chunks: deque[ChunkInFlight] = deque()

    def __iter__(self) -> Iterator[ChunkInFlight]:
        return iter(self._chunks)

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def waiting(self) -> int:
        """Return how many events that were read are not settled."""
        return sum(chunk.waiting for chunk in self._chunks)

    def totals(self) -> list[int]:
        """Count all settled events by `Settled`, also those behind one that waits."""
        counts = list(self.position.counts)
        for chunk in self._chunks:
            for settled in set(chunk.outcomes[chunk.prefix :]) - {Settled.WAITING}:
                counts[settled] += chunk.outcomes.count(settled, chunk.prefix)
        return counts

    def add(self, chunk: ChunkInFlight) -> None:
        """Add a chunk behind the others."""
        self._chunks.append(chunk)

    def advance(self) -> bool:
        """Move the position over what is settled; say whether it moved."""
        before = self.position
        counts = list(before.counts)
        offset, line, number = before.offset, before.line, before.number
        while self._chunks:
            chunk = self._chunks[0]
            end = chunk.outcomes.find(Settled.WAITING, chunk.prefix)
            settled_to = len(chunk.outcomes) if end < 0 else end
            for settled in set(chunk.outcomes[chunk.prefix : settled_to]):
                counts[settled] += chunk.outcomes.count(settled, chunk.prefix, settled_to)
            chunk.prefix = settled_to
            if end >= 0:
                offset, line = chunk.start, settled_to
                break
            offset, line, number = chunk.end, 0, max(number, chunk.number)
            self._chunks.popleft()
        # What is missing of a log is counted at one place.
        self.position = Position(offset=offset, line=line, number=number, counts=tuple(counts))
        return self.position != before
