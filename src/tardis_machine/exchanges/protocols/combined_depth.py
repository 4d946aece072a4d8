"""Books of combined streams: deltas held back until a snapshot arrives, then joined to it."""

from collections import deque
from collections.abc import Iterable
from itertools import starmap
from typing import ClassVar

from msgspec import Struct

from tardis_machine.exchanges.level_texts import Pair, TextLevels, levels_of, pair_levels
from tardis_machine.exchanges.levels import Level, book_change
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.model.errors import BookGapError
from tardis_machine.model.records import BookChange, BookLevel
from tardis_machine.model.time import auto_text

BUFFERED_DELTAS = 2000
"""Deltas kept per symbol while its snapshot has not arrived."""


class DepthData(Struct, gc=False, rename={"last_update_id": "lastUpdateId"}):
    """Payload of `@depth` and of the generated `@depthSnapshot`, told apart by `lastUpdateId`.

    Fields stand in the order of the wire, in which they are found fastest.
    """

    E: float | None = None
    T: float | None = None
    s: str = ""
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

    __slots__ = ("buffer", "has_joined", "last_id", "snapshot_id", "stale_id")

    def __init__(self, buffered: Iterable[DepthData] = ()) -> None:
        self.buffer: deque[DepthData] | None = deque(buffered, maxlen=BUFFERED_DELTAS)
        self.last_id = 0
        """Where the last update ended."""
        self.snapshot_id = 0
        self.stale_id = 0
        """Deltas that end here or earlier are part of the snapshot."""
        self.has_joined = False


class BookMapper(Mapper):
    """Depth of spot markets."""

    depth: ClassVar[TextLevels] = pair_levels(DepthMessage, "data", bids="b", asks="a")
    keeps_removed = False
    """Whether a removed level stays in the joined snapshot, with no amount."""
    stale_lag = 0
    """How far behind the snapshot's id a delta must end to be part of it."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._books: dict[str, Book] = self.keep({})

    def handler(self, tag: str) -> Handler | None:
        """Handle depth updates and generated snapshots."""
        return (self.depth, self.map) if "@depth" in tag else None

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
            return
        if self.is_live:
            if not self._continues(book, data):
                return
        elif data.u <= book.stale_id:
            # Recordings may have gaps and are still worth replaying.
            return
        timestamp = local if data.E is None else auto_text(data.E)
        emit(
            book_change(data.s, self.exchange, data.b, data.a, timestamp, local, is_snapshot=False)
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
        try:
            for delta in buffered:
                if self._follows(book, delta):
                    for change in levels_of(delta.b):
                        self.merge(bids, change)
                    for change in levels_of(delta.a):
                        self.merge(asks, change)
        except BookGapError:
            # The next snapshot may join what is buffered.
            self._books[symbol] = Book(buffered)
            raise
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

    def merge(self, levels: dict[float, float], change: Pair) -> None:
        """Apply a changed level to those of a snapshot, in place."""
        if change.amount == 0 and not self.keeps_removed:
            levels.pop(change.price, None)
        else:
            levels[change.price] = change.amount

    def _continues(self, book: Book, delta: DepthData) -> bool:
        """Say whether a delta is newer than the book; after a gap the book starts over."""
        try:
            return self._follows(book, delta)
        except BookGapError:
            self._books[delta.s] = Book([delta])
            raise

    def _follows(self, book: Book, delta: DepthData) -> bool:
        """Say whether a delta is newer than the snapshot; check that it joins what came before."""
        if delta.u <= book.stale_id:
            return False
        # Recordings may have gaps and are still worth replaying; a live book is not.
        if self.is_live:
            self._check_joins(book, delta)
        book.has_joined = True
        book.last_id = delta.u
        return True

    def _check_joins(self, book: Book, delta: DepthData) -> None:
        if book.has_joined:
            if self.checks_sequence and not self.succeeds(delta, book.last_id):
                raise BookGapError(
                    delta.s,
                    f"a depth update ({delta.U} to {delta.u}) does not follow the last one "
                    f"(last id {book.last_id}).",
                )
        elif not self.joins(delta, book.snapshot_id):
            raise BookGapError(
                delta.s,
                f"the first depth update ({delta.U} to {delta.u}) does not follow the snapshot "
                f"(last id {book.snapshot_id}).",
            )

    def joins(self, delta: DepthData, snapshot_id: int) -> bool:
        """Say whether a delta directly continues the snapshot."""
        # A new market starts with an empty book whose id is -1.
        return snapshot_id == -1 or delta.U <= snapshot_id + 1 <= delta.u

    def succeeds(self, delta: DepthData, last_id: int) -> bool:
        """Say whether a delta directly continues the one before it."""
        return last_id + 1 >= delta.U


class FuturesBookMapper(BookMapper):
    """Depth of futures, whose deltas also name their predecessor."""

    stale_lag = 1

    def joins(self, delta: DepthData, snapshot_id: int) -> bool:
        """Say whether a delta overlaps or directly continues the snapshot."""
        return delta.U <= snapshot_id <= delta.u or delta.pu == snapshot_id

    def succeeds(self, delta: DepthData, last_id: int) -> bool:
        """Say whether a delta names the one before it as its predecessor."""
        return delta.pu is None or delta.pu == last_id
