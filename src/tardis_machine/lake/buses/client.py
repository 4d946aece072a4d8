"""What a bus must be able to do so that Spark can read it.

A `Bus` is settings and no more: it travels to executors, secrets inside, as pickled bytes that
appear in no option, plan or log. What it connects is a `BusClient`, on the driver to plan and in
each task to read.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import pyarrow as pa

from tardis_machine.lake.buses.positions import Lane, Offset, Position, Range


class Span(NamedTuple):
    """Available events of a lane: all after `oldest`, up to and including `newest`."""

    oldest: Position
    newest: Position


class Loss(NamedTuple):
    """Events that are gone before they were read."""

    events: int
    """How many, at least."""
    is_new_lane: bool = False
    """The lane was deleted and recreated."""


class Page(NamedTuple):
    """Events of one lane, and the position of the last one."""

    batch: pa.RecordBatch
    position: Position
    lost: int = 0
    """Events before these that are lost, if the bus reports it while reading."""


class Connection(ABC):
    """Something to be closed."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class RangeClient(Connection):
    """Reads ranges, in a task."""

    @abstractmethod
    def read(self, wanted: Range) -> Iterator[Page]:
        """Yield the events of a range in order; events that the bus deleted are skipped."""

    def confirmed_loss(self, wanted: Range, missing: int) -> int:
        """Return how many of the expected events of a range are really lost."""
        return missing


class BusClient(RangeClient):
    """Also reports what is available, for buses that know their newest position."""

    @abstractmethod
    def spans(self) -> Mapping[Lane, Span]:
        """Return the available events of every lane."""

    def stream_ids(self) -> Mapping[str, str]:
        """Return the ids of the streams in the last `spans`.

        A stream that is deleted and made anew has another one. Streams whose positions show that
        by themselves need none.
        """
        return {}

    @abstractmethod
    def distance(self, start: Position, end: Position) -> int:
        """Return the number of events between two positions, or an upper bound."""

    @abstractmethod
    def advance(self, lane: Lane, start: Position, rows: int) -> Position:
        """Return the position that is `rows` events after another one."""

    @abstractmethod
    def cut(self, wanted: Range, parts: int) -> list[Range]:
        """Return a range in about equal parts."""

    @abstractmethod
    def loss(self, lane: Lane, start: Position, span: Span) -> Loss | None:
        """Return the events after a position that a lane has lost."""

    @abstractmethod
    def is_before(self, one: Position, other: Position) -> bool:
        """Say whether one position of a lane is before another."""


class NumberedClient(BusClient):
    """A bus that numbers the events of a lane one by one."""

    def distance(self, start: Position, end: Position) -> int:
        """Return the difference of the numbers."""
        return max(0, int(end) - int(start))

    def advance(self, lane: Lane, start: Position, rows: int) -> Position:
        """Return the number so many events on."""
        return int(start) + rows

    def cut(self, wanted: Range, parts: int) -> list[Range]:
        """Cut at evenly spaced numbers."""
        start, length = wanted.start, wanted.end - wanted.start
        places = [start + length * part // parts for part in range(parts + 1)]
        return [Range(wanted.lane, one, other, other - one) for one, other in pairwise(places)]

    def loss(self, lane: Lane, start: Position, span: Span) -> Loss | None:
        """Compare the first number that is still there with the next one to read."""
        if span.newest < start:
            return Loss(span.newest - span.oldest, is_new_lane=True)
        return Loss(span.oldest - start) if span.oldest > start else None

    def is_before(self, one: Position, other: Position) -> bool:
        """Compare the numbers."""
        return bool(one < other)

    @abstractmethod
    def span(self, lane: Lane) -> Span:
        """Return the available events of one lane."""

    def confirmed_loss(self, wanted: Range, missing: int) -> int:
        """Tell what the bus let go from numbers that never were events of ours."""
        return min(missing, max(0, int(self.span(wanted.lane).oldest) - int(wanted.start)))


class Planner(Connection):
    """Decides on the driver what the next batch reads."""

    @property
    @abstractmethod
    def lost(self) -> int:
        """Return how many events were gone before they could be planned, at least."""

    @abstractmethod
    def begin(self) -> Offset:
        """Return where a new query starts: before the oldest event of every lane."""

    @abstractmethod
    def freeze(self) -> None:
        """Plan nothing newer than what is available now."""

    @abstractmethod
    def latest(self, start: Offset, max_rows: int | None) -> Offset:
        """Return the end of the next batch."""

    @abstractmethod
    def newest(self) -> Offset | None:
        """Return the newest positions there are, for reports of lag."""

    @abstractmethod
    def ranges(self, start: Offset, end: Offset) -> list[Range]:
        """Return what the tasks of a batch read; the same ranges give the same events again."""

    @abstractmethod
    def commit(self, end: Offset) -> None:
        """Note that nothing up to an offset is read again."""


@dataclass(frozen=True, kw_only=True)
class ReadPolicy:
    """How a bus is read, whichever it is."""

    max_rows: int | None = 1_000_000
    """Events per batch; None: all there are."""
    fails_on_loss: bool = True
    """Fail when events were lost; otherwise log their number and continue."""
    retry_seconds: float = 60.0
    """How long a bus may be away before reading it fails."""
    rows_per_task: int = 100_000
    """About what one task reads; each writes a file per payload case."""


class Bus(Protocol):
    """One bus to read: picklable, and not connected."""

    @property
    def name(self) -> str:
        """Return its name, as in `bronze.events.bus`."""

    @property
    def endpoint(self) -> str:
        """Return what tells it from other buses of its kind; without secrets."""

    def planner(self, policy: ReadPolicy) -> Planner:
        """Return what plans batches; may connect."""

    def connect(self) -> RangeClient:
        """Return what reads ranges; BusUnavailableError when the bus is not reached."""
