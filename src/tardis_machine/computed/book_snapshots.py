"""Snapshots of the best levels of a book: on every change or per interval, plain or grouped.

A snapshot is due when its visible levels changed, and for an interval also when a change of a later
interval (by exchange time) arrives: it then shows the book before that change. Nothing is emitted
without a book change.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw

from tardis_machine.computed.books import new_book
from tardis_machine.computed.grouping import GroupedPrices
from tardis_machine.computed.intervals import MS_CHARS, Intervals
from tardis_machine.computed.order_book import UNCHANGED, BookSide, OrderBook
from tardis_machine.computed.price_groups import PriceGroups
from tardis_machine.model.compiled import compiled_module
from tardis_machine.model.data_types import BookSnapshotSpec
from tardis_machine.model.records import AnyBookChange, BookLevel, EncodedBookSnapshot, Record

_encode = msgspec.json.Encoder().encode
_NO_LEVEL = Raw(b"{}")
_compiled = compiled_module("tardis_machine.computed.compiled_book_snapshots")


class BookSnapshots:
    """Every requested snapshot of one symbol.

    Snapshots share one book, or two when only some of them remove crossed levels.

    Args:
        specs: What is requested.
        trim_levels: Leave missing levels out instead of writing `{}` for them.
    """

    def __init__(self, specs: Sequence[BookSnapshotSpec], *, trim_levels: bool = False) -> None:
        books = {
            removes: new_book(removes_crossed_levels=removes, text_depth=_text_depth(specs))
            for removes in {spec.removes_crossed_levels for spec in specs}
        }
        self._books = tuple(books.values())
        self._snapshots = [
            (_OnChange if spec.interval == 0 else _Periodic)(
                spec, books[spec.removes_crossed_levels], trim_levels=trim_levels
            )
            for spec in specs
        ]
        self._periodic = [each for each in self._snapshots if isinstance(each, _Periodic)]

    def apply(self, change: AnyBookChange, out: list[Record]) -> None:
        """Apply a change and append the snapshots it triggers, in the order of the specs."""
        for periodic in self._periodic:
            periodic.advance(change)
        for book in self._books:
            book.apply(change)
        for snapshot in self._snapshots:
            snapshot.emit(change, out)


def new_snapshots(specs: Sequence[BookSnapshotSpec], *, trim_levels: bool = False) -> BookSnapshots:
    """Make the snapshots of one symbol, compiled ones where those can do what is requested."""
    is_grouped = any(spec.grouping is not None for spec in specs)
    kind = BookSnapshots if is_grouped or _compiled is None else _compiled.CompiledBookSnapshots
    made: BookSnapshots = kind(specs, trim_levels=trim_levels)
    return made


def _text_depth(specs: Sequence[BookSnapshotSpec]) -> int:
    """Return how many level texts are worth keeping: those that are written on every change."""
    on_change = [spec for spec in specs if spec.interval == 0 and spec.grouping is None]
    return max((spec.depth for spec in on_change), default=0)


class _SideView(ABC):
    """The best levels of one side of a book."""

    __slots__ = ("_depth", "_fills_up", "side", "written")

    def __init__(self, side: BookSide, depth: int, *, trim_levels: bool) -> None:
        self.side = side
        self._depth = depth
        self._fills_up = not trim_levels
        self.written = self._filled_up(b"", 0)
        """The items of the JSON array of visible levels, in one or more pieces."""

    @abstractmethod
    def follow(self) -> bool:
        """Take over the last change of the side; say whether visible levels differ."""

    @abstractmethod
    def write(self) -> None:
        """Write the visible levels as they are now, whatever changed since the last time."""

    def _filled_up(self, text: bytes, levels: int) -> list[Raw]:
        """Add `{}` for levels that the book does not have."""
        missing = self._depth - levels if self._fills_up else 0
        return [*([Raw(text)] if levels else []), *[_NO_LEVEL] * missing]


class _TextView(_SideView):
    """Visible levels as text, for snapshots on every change."""

    __slots__ = ("_text",)

    def __init__(self, side: BookSide, depth: int, *, trim_levels: bool) -> None:
        super().__init__(side, depth, trim_levels=trim_levels)
        self._text = b""

    def follow(self) -> bool:
        side, depth = self.side, self._depth
        if side.changed_depth >= depth:
            return False
        text = side.text(depth)
        if text == self._text:
            return False
        self._text = text
        present = len(side.levels)
        self.written = [Raw(text)] if present >= depth else self._filled_up(text, present)
        return True

    def write(self) -> None:
        self.follow()


class _LevelView(_SideView):
    """Visible levels, for snapshots per interval: they become text when one is emitted."""

    __slots__ = ("_levels",)

    def __init__(self, side: BookSide, depth: int, *, trim_levels: bool) -> None:
        super().__init__(side, depth, trim_levels=trim_levels)
        self._levels: list[BookLevel] = []

    def follow(self) -> bool:
        if self.side.changed_depth >= self._depth:
            return False
        before, self._levels = self._levels, self.side.top(self._depth)
        return self._levels != before

    def write(self) -> None:
        self._levels = self.side.top(self._depth)
        self.written = self._filled_up(_encode(self._levels)[1:-1], len(self._levels))


class _GroupedView(_SideView):
    """Visible levels summed by price step."""

    __slots__ = ("_groups", "_text")

    def __init__(
        self, side: BookSide, depth: int, prices: GroupedPrices, *, trim_levels: bool
    ) -> None:
        super().__init__(side, depth, trim_levels=trim_levels)
        self._groups = PriceGroups(side, prices, depth)
        self._text = b""

    def follow(self) -> bool:
        return self._groups.follow() and self._take_over()

    def write(self) -> None:
        self._groups.rebuild()
        self._take_over()

    def _take_over(self) -> bool:
        text = self._groups.text()
        if text == self._text:
            return False
        self._text = text
        self.written = self._filled_up(text, len(self._groups))
        return True


def _views(
    spec: BookSnapshotSpec, book: OrderBook, *, trim_levels: bool
) -> tuple[_SideView, _SideView]:
    """Make the views of both sides that a spec asks for, bids first."""
    if spec.grouping is None:
        view = _TextView if spec.interval == 0 else _LevelView
        return (
            view(book.bids, spec.depth, trim_levels=trim_levels),
            view(book.asks, spec.depth, trim_levels=trim_levels),
        )
    bid_prices = GroupedPrices(spec.grouping, is_bid=True)
    ask_prices = GroupedPrices(spec.grouping, is_bid=False)
    return (
        _GroupedView(book.bids, spec.depth, bid_prices, trim_levels=trim_levels),
        _GroupedView(book.asks, spec.depth, ask_prices, trim_levels=trim_levels),
    )


class _Snapshot(ABC):
    """What the two kinds of snapshot share: the views and the record made of them."""

    __slots__ = ("_asks", "_bids", "_depth", "_grouping", "_interval", "_name")

    def __init__(self, spec: BookSnapshotSpec, book: OrderBook, *, trim_levels: bool) -> None:
        self._bids, self._asks = _views(spec, book, trim_levels=trim_levels)
        self._name = spec.name
        self._depth = spec.depth
        self._interval = spec.interval
        self._grouping = UNSET if spec.grouping is None else spec.grouping

    @abstractmethod
    def emit(self, change: AnyBookChange, out: list[Record]) -> None:
        """Append the snapshot when it is due after this change."""

    def _follow(self) -> bool:
        """Take over the last change of the book; say whether visible levels differ."""
        bids, asks = self._bids, self._asks
        # Most changes concern one side.
        differs = bids.side.changed_depth != UNCHANGED and bids.follow()
        return (asks.side.changed_depth != UNCHANGED and asks.follow()) or differs

    def _record(self, change: AnyBookChange, timestamp: str) -> EncodedBookSnapshot:
        return EncodedBookSnapshot(
            symbol=change.symbol,
            exchange=change.exchange,
            name=self._name,
            depth=self._depth,
            interval=self._interval,
            grouping=self._grouping,
            bids=self._bids.written,
            asks=self._asks.written,
            timestamp=timestamp,
            local_timestamp=change.local_timestamp,
        )


class _OnChange(_Snapshot):
    """A snapshot after every change of its visible levels."""

    __slots__ = ()

    def emit(self, change: AnyBookChange, out: list[Record]) -> None:
        # `_follow` and `_record` written out: this runs for every change of every book.
        bids, asks = self._bids, self._asks
        differs = bids.side.changed_depth != UNCHANGED and bids.follow()
        if asks.side.changed_depth != UNCHANGED and asks.follow():
            differs = True
        if differs:
            out.append(
                EncodedBookSnapshot(
                    symbol=change.symbol,
                    exchange=change.exchange,
                    name=self._name,
                    depth=self._depth,
                    interval=self._interval,
                    grouping=self._grouping,
                    bids=bids.written,
                    asks=asks.written,
                    timestamp=change.timestamp,
                    local_timestamp=change.local_timestamp,
                )
            )


class _Periodic(_Snapshot):
    """A snapshot per interval in which its visible levels changed.

    The first one is emitted at once, so that clients need not wait for the end of an interval.
    """

    __slots__ = ("_due", "_has_changed", "_intervals", "_is_first", "_number")

    def __init__(self, spec: BookSnapshotSpec, book: OrderBook, *, trim_levels: bool) -> None:
        super().__init__(spec, book, trim_levels=trim_levels)
        self._intervals = Intervals(spec.interval)
        self._number = 0
        self._has_changed = False
        self._is_first = True
        self._due: EncodedBookSnapshot | None = None

    def advance(self, change: AnyBookChange) -> None:
        """Move to the interval of a change that is not applied yet; keep what falls due by it."""
        intervals = self._intervals
        if intervals.start <= change.timestamp[:MS_CHARS] < intervals.end:
            return
        number = intervals.number_of(change.timestamp)
        if self._has_changed and number > self._number:
            self._due = self._written_record(change, self._intervals.end_text(self._number))
            self._has_changed = False
        self._number = number

    def emit(self, change: AnyBookChange, out: list[Record]) -> None:
        if self._due is not None:
            out.append(self._due)
            self._due = None
        if self._has_changed or not self._follow():
            return
        self._has_changed = not self._is_first
        if self._is_first:
            self._is_first = False
            out.append(self._written_record(change, change.timestamp))

    def _written_record(self, change: AnyBookChange, timestamp: str) -> EncodedBookSnapshot:
        self._bids.write()
        self._asks.write()
        return self._record(change, timestamp)
