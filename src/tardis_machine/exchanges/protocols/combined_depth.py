"""Books of combined streams: deltas held back until a snapshot arrives, then joined to it."""

from collections import deque
from collections.abc import Iterable
from itertools import starmap

from msgspec import Struct

from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.model.errors import MappingError
from tardis_machine.model.records import BookChange, BookLevel
from tardis_machine.model.time import auto_text

BUFFERED_DELTAS = 2000
"""Deltas kept per symbol while its snapshot has not arrived."""


class Level(Struct, array_like=True, gc=False):
    """Price and quantity; old messages add an empty array, which is ignored."""

    price: float
    amount: float


class DepthData(Struct, gc=False, rename={"last_update_id": "lastUpdateId"}):
    """Payload of `@depth` and of the generated `@depthSnapshot`, told apart by `lastUpdateId`."""

    s: str = ""
    E: float | None = None
    T: float | None = None
    U: int = 0
    u: int = 0
    pu: int | None = None
    b: list[Level] = []
    a: list[Level] = []
    last_update_id: int | None = None
    bids: list[Level] = []
    asks: list[Level] = []


class DepthMessage(Struct, gc=False):
    """A `@depth` or `@depthSnapshot` message."""

    stream: str
    data: DepthData


class Book:
    """How far the book of one symbol is joined to its snapshot."""

    __slots__ = ("buffer", "has_joined", "snapshot_id", "stale_id")

    def __init__(self) -> None:
        self.buffer: deque[DepthData] | None = deque(maxlen=BUFFERED_DELTAS)
        self.snapshot_id = 0
        self.stale_id = 0
        """Deltas that end here or earlier are part of the snapshot."""
        self.has_joined = False


class BookMapper(Mapper):
    """Depth of spot markets."""

    stale_lag = 0
    """How far behind the snapshot's id a delta must end to be part of it."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._books: dict[str, Book] = {}

    def handler(self, tag: str) -> Handler | None:
        """Handle depth updates and generated snapshots."""
        return (DepthMessage, self.map) if "@depth" in tag else None

    def map(self, message: DepthMessage, local: str, emit: Emit) -> None:
        """Emit a joined snapshot once per symbol, then each update."""
        data = message.data
        if data.last_update_id is not None:
            symbol = message.stream.partition("@")[0].upper()
            self._map_snapshot(symbol, data, data.last_update_id, local, emit)
            return
        book = self._books.get(data.s)
        if book is None:
            book = self._books[data.s] = Book()
        if book.buffer is not None:
            book.buffer.append(data)
        elif self._follows(book, data):
            emit(
                BookChange(
                    symbol=data.s,
                    exchange=self.exchange,
                    is_snapshot=False,
                    bids=[BookLevel(level.price, level.amount) for level in data.b],
                    asks=[BookLevel(level.price, level.amount) for level in data.a],
                    timestamp=local if data.E is None else auto_text(data.E),
                    local_timestamp=local,
                )
            )

    def _map_snapshot(
        self, symbol: str, data: DepthData, snapshot_id: int, local: str, emit: Emit
    ) -> None:
        book = self._books.setdefault(symbol, Book())
        if book.buffer is None:
            return
        buffered, book.buffer = book.buffer, None
        book.snapshot_id = snapshot_id
        book.stale_id = snapshot_id - self.stale_lag
        bids = {level.price: level.amount for level in data.bids}
        asks = {level.price: level.amount for level in data.asks}
        for delta in buffered:
            if self._follows(book, delta):
                merge_levels(bids, delta.b)
                merge_levels(asks, delta.a)
        emit(
            BookChange(
                symbol=symbol,
                exchange=self.exchange,
                is_snapshot=True,
                bids=list(starmap(BookLevel, bids.items())),
                asks=list(starmap(BookLevel, asks.items())),
                timestamp=local if data.T is None else auto_text(data.T),
                local_timestamp=local,
            )
        )

    def _follows(self, book: Book, delta: DepthData) -> bool:
        """Say whether a delta is newer than the snapshot; check once that the first one joins."""
        if delta.u <= book.stale_id:
            return False
        if not book.has_joined:
            # Recordings may miss the overlap and are still worth replaying; a live book is not.
            if self.is_live and not self.joins(delta, book.snapshot_id):
                raise MappingError(
                    f"{delta.s}: the first depth update ({delta.U} to {delta.u}) "
                    f"does not follow the snapshot (last id {book.snapshot_id})."
                )
            book.has_joined = True
        return True

    def joins(self, delta: DepthData, snapshot_id: int) -> bool:
        """Say whether a delta directly continues the snapshot."""
        # A new market starts with an empty book whose id is -1.
        return snapshot_id == -1 or delta.U <= snapshot_id + 1 <= delta.u


class FuturesBookMapper(BookMapper):
    """Depth of futures, whose deltas also name their predecessor."""

    stale_lag = 1

    def joins(self, delta: DepthData, snapshot_id: int) -> bool:
        """Say whether a delta overlaps or directly continues the snapshot."""
        return delta.U <= snapshot_id <= delta.u or delta.pu == snapshot_id


def merge_levels(levels: dict[float, float], changes: Iterable[Level]) -> None:
    """Apply changed levels to those of a snapshot, in place."""
    for change in changes:
        if change.amount == 0:
            levels.pop(change.price, None)
        else:
            levels[change.price] = change.amount
