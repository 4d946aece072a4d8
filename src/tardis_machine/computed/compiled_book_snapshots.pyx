# cython: language_level=3
"""`book_snapshots.py` in Cython, for all snapshots but grouped ones."""

from cpython.unicode cimport PyUnicode_GET_LENGTH
from libc.string cimport memcmp

import sys

import msgspec
from msgspec import UNSET, Raw

from tardis_machine.computed.intervals import Intervals
from tardis_machine.model.records import BookChange, EncodedBookSnapshot

from tardis_machine.computed.compiled_order_book cimport CompiledBookSide, CompiledOrderBook
from tardis_machine.model.struct_fields cimport field, offset_of


cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    const unsigned char* PyUnicode_1BYTE_DATA(object text)


cdef enum:
    MS_CHARS = 23

cdef Py_ssize_t UNCHANGED = sys.maxsize
cdef object encode = msgspec.json.Encoder().encode
cdef object raw_type = Raw
cdef object snapshot_type = EncodedBookSnapshot
cdef object change_type = BookChange
cdef object no_level = Raw(b"{}")
cdef Py_ssize_t change_timestamp = offset_of(BookChange, "timestamp")


cdef class CompiledBookSnapshots:
    """Every requested snapshot of one symbol; the arguments are those of `BookSnapshots`."""

    cdef tuple _books
    cdef list _snapshots
    cdef bint _has_periodic

    def __init__(self, specs, *, bint trim_levels=False):
        text_depth = max([spec.depth for spec in specs if spec.interval == 0], default=0)
        books = {
            removes: CompiledOrderBook(removes_crossed_levels=removes, text_depth=text_depth)
            for removes in {spec.removes_crossed_levels for spec in specs}
        }
        self._books = tuple(books.values())
        self._snapshots = [
            Snapshot(spec, books[spec.removes_crossed_levels], trim_levels) for spec in specs
        ]
        self._has_periodic = any([spec.interval != 0 for spec in specs])

    def apply(self, change, list out):
        """Apply a change and append the snapshots it triggers, in the order of the specs."""
        cdef Snapshot snapshot
        cdef CompiledOrderBook book
        if self._has_periodic:
            is_plain = type(change) is change_type
            timestamp = field(change, change_timestamp) if is_plain else change.timestamp
            for snapshot in self._snapshots:
                if snapshot.intervals is not None:
                    snapshot.advance(change, timestamp)
        for book in self._books:
            book.follow(change)
        for snapshot in self._snapshots:
            if snapshot.intervals is None:
                snapshot.emit_change(change, out)
            else:
                snapshot.emit_periodic(change, out)


cdef class View:
    """The best levels of one side of a book: as text, or as levels until they are written."""

    cdef CompiledBookSide side
    cdef Py_ssize_t depth
    cdef bint fills_up
    cdef bint is_text
    cdef bytes text
    cdef list levels
    # The items of the JSON array of visible levels, in one or more pieces.
    cdef list written

    def __cinit__(self, CompiledBookSide side, Py_ssize_t depth, bint is_text, bint trim_levels):
        self.side = side
        self.depth = depth
        self.is_text = is_text
        self.fills_up = not trim_levels
        self.text = b""
        self.levels = []
        self.fill(b"", 0)

    cdef bint follow(self) except -1:
        """Take over the last change of the side; say whether visible levels differ."""
        if self.side.changed_depth >= self.depth:
            return False
        if self.is_text:
            return self.follow_text()
        before, self.levels = self.levels, self.side.best_levels(self.depth)
        return self.levels != before

    cdef bint follow_text(self) except -1:
        cdef bytes text = self.side.written(self.depth)
        if text == self.text:
            return False
        self.text = text
        self.fill(text, min(self.side._size, self.depth))
        return True

    cdef int write(self) except -1:
        """Write the visible levels as they are now, whatever changed since the last time."""
        self.levels = self.side.best_levels(self.depth)
        self.fill(encode(self.levels)[1:-1], len(self.levels))
        return 0

    cdef int fill(self, bytes text, Py_ssize_t levels) except -1:
        """Take over the text of the visible levels, with `{}` for those the book does not have."""
        self.written = [raw_type(text)] if levels else []
        if self.fills_up and levels < self.depth:
            self.written += [no_level] * (self.depth - levels)
        return 0


cdef class Snapshot:
    """One requested snapshot: after every change, or per interval where there are intervals."""

    cdef View bids
    cdef View asks
    cdef object name
    cdef object depth
    cdef object interval
    cdef object intervals
    cdef str start
    cdef str end
    cdef object number
    cdef object due
    cdef bint has_changed
    cdef bint is_first

    def __cinit__(self, spec, CompiledOrderBook book, bint trim_levels):
        is_text = spec.interval == 0
        self.bids = View(book.bids, spec.depth, is_text, trim_levels)
        self.asks = View(book.asks, spec.depth, is_text, trim_levels)
        self.name = spec.name
        self.depth = spec.depth
        self.interval = spec.interval
        self.intervals = None if is_text else Intervals(spec.interval)
        self.start = self.end = ""
        self.number = 0
        self.is_first = True

    cdef bint follow(self) except -1:
        """Take over the last change of the book; say whether visible levels differ."""
        cdef bint differs = self.bids.follow()
        return self.asks.follow() or differs

    cdef int emit_change(self, object change, list out) except -1:
        """Append the snapshot when visible levels changed."""
        if self.follow():
            out.append(self.record(change, change.timestamp))
        return 0

    cdef int advance(self, object change, object timestamp) except -1:
        """Move to the interval of a change that is not applied yet; keep what falls due by it."""
        if is_between(self.start, timestamp, self.end):
            return 0
        number = self.intervals.number_of(timestamp)
        self.start, self.end = self.intervals.start, self.intervals.end
        if self.has_changed and number > self.number:
            self.due = self.written_record(change, self.intervals.end_text(self.number))
            self.has_changed = False
        self.number = number
        return 0

    cdef int emit_periodic(self, object change, list out) except -1:
        """Append what fell due by a change; note whether it changes visible levels."""
        if self.due is not None:
            out.append(self.due)
            self.due = None
        if self.has_changed or not self.follow():
            return 0
        self.has_changed = not self.is_first
        if self.is_first:
            self.is_first = False
            out.append(self.written_record(change, change.timestamp))
        return 0

    cdef object written_record(self, object change, object timestamp):
        self.bids.write()
        self.asks.write()
        return self.record(change, timestamp)

    cdef object record(self, object change, object timestamp):
        return snapshot_type(
            symbol=change.symbol,
            exchange=change.exchange,
            name=self.name,
            depth=self.depth,
            interval=self.interval,
            grouping=UNSET,
            bids=self.bids.written,
            asks=self.asks.written,
            timestamp=timestamp,
            local_timestamp=change.local_timestamp,
        )


cdef bint is_between(str start, object text, str end) except -1:
    """Say whether a time lies in an interval; texts of one length compare like their bytes."""
    cdef const unsigned char* chars
    if (
        type(text) is str
        and PyUnicode_IS_COMPACT_ASCII(text)
        and PyUnicode_GET_LENGTH(text) >= MS_CHARS
        and PyUnicode_GET_LENGTH(start) == MS_CHARS
        and PyUnicode_GET_LENGTH(end) == MS_CHARS
    ):
        chars = PyUnicode_1BYTE_DATA(text)
        return (
            memcmp(PyUnicode_1BYTE_DATA(start), chars, MS_CHARS) <= 0
            and memcmp(chars, PyUnicode_1BYTE_DATA(end), MS_CHARS) < 0
        )
    return start <= text[:MS_CHARS] < end
