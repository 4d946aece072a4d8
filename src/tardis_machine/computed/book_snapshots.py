"""Snapshots of the best levels of a book: on every change or per interval, plain or grouped.

A snapshot is due when its visible levels changed, and for an interval also when a change of a later
interval (by exchange time) arrives: it then shows the book before that change. Nothing is emitted
without a book change.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw

from tardis_machine.computed.grouping import GroupedPrices, group_levels
from tardis_machine.computed.intervals import Intervals
from tardis_machine.computed.order_book import BookSide, OrderBook
from tardis_machine.model.data_types import BookSnapshotSpec
from tardis_machine.model.records import BookChange, EncodedBookSnapshot, Record

_encode = msgspec.json.Encoder().encode


class BookSnapshots:
    """Every requested snapshot of one symbol.

    Snapshots share one book, or two when only some of them remove crossed levels.

    Args:
        specs: What is requested.
        trim_levels: Leave missing levels out instead of writing `{}` for them.
    """

    def __init__(self, specs: Sequence[BookSnapshotSpec], *, trim_levels: bool = False) -> None:
        books = {
            removes: OrderBook(removes_crossed_levels=removes, text_depth=_text_depth(specs))
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

    def apply(self, change: BookChange, out: list[Record]) -> None:
        """Apply a change and append the snapshots it triggers, in the order of the specs."""
        for periodic in self._periodic:
            periodic.advance(change)
        for book in self._books:
            book.apply(change)
        for snapshot in self._snapshots:
            snapshot.emit(change, out)


def _text_depth(specs: Sequence[BookSnapshotSpec]) -> int:
    """Return how many level texts are worth keeping: those that are written on every change."""
    on_change = [spec for spec in specs if spec.interval == 0 and spec.grouping is None]
    return max((spec.depth for spec in on_change), default=0)


class _SideView:
    """The best levels of one side of a book, as JSON."""

    __slots__ = ("_depth", "_fills_up", "_text", "raw", "reach", "side")

    def __init__(self, side: BookSide, depth: int, *, trim_levels: bool) -> None:
        self.side = side
        self.reach = depth
        """Changes from this depth on cannot be seen."""
        self._depth = depth
        self._fills_up = not trim_levels
        self._text = self._filled_up(b"[]", 0)
        self.raw = Raw(self._text)

    def rebuild(self) -> bool:
        """Read the book again; say whether visible levels differ."""
        text = self._read()
        if text == self._text:
            return False
        self._text = text
        self.raw = Raw(text)
        return True

    def _read(self) -> bytes:
        """Write the visible levels."""
        side, depth = self.side, self._depth
        present = len(side.levels)
        if present >= depth:
            return side.text(depth)
        return self._filled_up(side.text(depth), present)

    def _filled_up(self, text: bytes, levels: int) -> bytes:
        """Add `{}` for levels that the book does not have."""
        if not self._fills_up:
            return text
        parts = [text[1:-1]] if levels else []
        return b"[%b]" % b",".join(parts + [b"{}"] * (self._depth - levels))


class _GroupedSideView(_SideView):
    """The best levels of one side of a book, summed by price step, as JSON."""

    __slots__ = ("_prices",)

    def __init__(
        self, side: BookSide, depth: int, prices: GroupedPrices, *, trim_levels: bool
    ) -> None:
        super().__init__(side, depth, trim_levels=trim_levels)
        self._prices = prices

    def _read(self) -> bytes:
        levels, count = group_levels(self.side, self._prices, self._depth)
        # A level that is inserted right behind these may belong to the last group.
        self.reach = count + 1
        return self._filled_up(_encode(levels), len(levels))


def _views(
    spec: BookSnapshotSpec, book: OrderBook, *, trim_levels: bool
) -> tuple[_SideView, _SideView]:
    """Make the views of both sides that a spec asks for, bids first."""
    if spec.grouping is None:
        return (
            _SideView(book.bids, spec.depth, trim_levels=trim_levels),
            _SideView(book.asks, spec.depth, trim_levels=trim_levels),
        )
    bid_prices = GroupedPrices(spec.grouping, is_bid=True)
    ask_prices = GroupedPrices(spec.grouping, is_bid=False)
    return (
        _GroupedSideView(book.bids, spec.depth, bid_prices, trim_levels=trim_levels),
        _GroupedSideView(book.asks, spec.depth, ask_prices, trim_levels=trim_levels),
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
    def emit(self, change: BookChange, out: list[Record]) -> None:
        """Append the snapshot when it is due after this change."""

    def _follow(self) -> bool:
        """Take over the last change of the book; say whether visible levels differ."""
        bids, asks = self._bids, self._asks
        differs = bids.side.changed_depth < bids.reach and bids.rebuild()
        if asks.side.changed_depth < asks.reach and asks.rebuild():
            return True
        return differs

    def _record(self, change: BookChange, timestamp: str) -> EncodedBookSnapshot:
        return EncodedBookSnapshot(
            symbol=change.symbol,
            exchange=change.exchange,
            name=self._name,
            depth=self._depth,
            interval=self._interval,
            grouping=self._grouping,
            bids=self._bids.raw,
            asks=self._asks.raw,
            timestamp=timestamp,
            local_timestamp=change.local_timestamp,
        )


class _OnChange(_Snapshot):
    """A snapshot after every change of its visible levels."""

    __slots__ = ()

    def emit(self, change: BookChange, out: list[Record]) -> None:
        # `_follow` and `_record` written out: this runs for every change of every book.
        bids, asks = self._bids, self._asks
        differs = bids.side.changed_depth < bids.reach and bids.rebuild()
        if asks.side.changed_depth < asks.reach and asks.rebuild():
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
                    bids=bids.raw,
                    asks=asks.raw,
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

    def advance(self, change: BookChange) -> None:
        """Move to the interval of a change that is not applied yet; keep what falls due by it."""
        number = self._intervals.number_of(change.timestamp)
        if self._has_changed and number > self._number:
            self._bids.rebuild()
            self._asks.rebuild()
            self._due = self._record(change, self._intervals.end_text(self._number))
            self._has_changed = False
        self._number = number

    def emit(self, change: BookChange, out: list[Record]) -> None:
        if self._due is not None:
            out.append(self._due)
            self._due = None
        if self._has_changed or not self._follow():
            return
        self._has_changed = not self._is_first
        if self._is_first:
            self._is_first = False
            out.append(self._record(change, change.timestamp))
