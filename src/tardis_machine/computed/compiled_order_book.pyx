# cython: language_level=3
"""`order_book.py` in Cython: numbers in arrays, and the text of the best levels in one piece."""

import math
import sys

import msgspec

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_Insert
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.string cimport memcpy, memmove

from tardis_machine.computed.order_book import CrossedRemoval
from tardis_machine.model.records import BookChange, BookLevel

from tardis_machine.model.struct_fields cimport field, offset_of

cdef Py_ssize_t UNCHANGED = sys.maxsize
cdef object encode = msgspec.json.Encoder().encode
cdef object level_type = BookLevel
cdef object change_type = BookChange

cdef Py_ssize_t level_price = offset_of(BookLevel, "price")
cdef Py_ssize_t level_amount = offset_of(BookLevel, "amount")
cdef Py_ssize_t change_is_snapshot = offset_of(BookChange, "is_snapshot")
cdef Py_ssize_t change_bids = offset_of(BookChange, "bids")
cdef Py_ssize_t change_asks = offset_of(BookChange, "asks")


cdef inline double price_of(object level) except? -1.0:
    return field(level, level_price) if type(level) is level_type else level.price


cdef inline double amount_of(object level) except? -1.0:
    return field(level, level_amount) if type(level) is level_type else level.amount


cdef class CompiledBookSide:
    """The levels of one side, best last, and the JSON text of the best of them."""

    def __cinit__(self, *, bint is_bid, Py_ssize_t text_depth=0):
        self.levels = []
        self.changed_depth = UNCHANGED
        self._sign = 1.0 if is_bid else -1.0
        self._changes = ()
        self._text_depth = text_depth

    def __dealloc__(self):
        PyMem_Free(self._keys)
        PyMem_Free(self._amounts)
        PyMem_Free(self._text)
        PyMem_Free(self._ends)

    def __len__(self):
        return self._size

    def __iter__(self):
        return reversed(self.levels)

    @property
    def best(self):
        """Return the best level, or None when the side is empty."""
        return self.levels[self._size - 1] if self._size else None

    def top(self, Py_ssize_t depth):
        """Return at most `depth` levels, best first."""
        return self.best_levels(depth)

    cdef list best_levels(self, Py_ssize_t depth):
        return self.levels[: -depth - 1 : -1]

    def key(self, Py_ssize_t index):
        """Return the price of a level, that of an ask negated."""
        if not 0 <= index < self._size:
            raise IndexError(index)
        return self._keys[index]

    def index(self, double key):
        """Return the place of the first level that is not worse than a key."""
        return self._index(key)

    def changed_keys(self):
        """Return the worst and the best key that the last change may have touched."""
        if not self._changes:
            return -math.inf, math.inf
        keys = [price_of(level) * self._sign for level in self._changes]
        return min(keys), max(keys)

    def text(self, Py_ssize_t depth):
        """Write at most `depth` levels as the items of a JSON array, best first."""
        return self.written(depth)

    cdef bytes written(self, Py_ssize_t depth):
        cdef Py_ssize_t shown
        if not 0 <= depth <= self._text_depth:
            return encode(self.best_levels(depth))[1:-1]
        while self._texts < depth and self._texts < self._size:
            self._insert_text(self._texts, self.levels[self._size - 1 - self._texts])
        shown = min(depth, self._texts)
        # Without the last comma.
        return PyBytes_FromStringAndSize(self._text, self._ends[shown - 1] - 1 if shown else 0)

    def load(self, levels):
        """Replace all levels; later ones win over earlier ones of the same price."""
        self._load(levels)

    cdef int _load(self, object levels) except -1:
        cdef Py_ssize_t place
        by_key = {}
        for level in levels:
            if amount_of(level) == 0:
                by_key.pop(price_of(level) * self._sign, None)
            else:
                by_key[price_of(level) * self._sign] = level
        keys = sorted(by_key)
        self._size = 0
        self._reserve(len(keys))
        self.levels = [by_key[key] for key in keys]
        for place, key in enumerate(keys):
            self._keys[place] = key
            self._amounts[place] = amount_of(self.levels[place])
        self._size = len(keys)
        self._texts = 0
        self._changes = ()
        self.changed_depth = 0
        return 0

    def apply(self, changes):
        """Set the amounts of some levels, in order; amount 0 removes a level."""
        self._apply(changes)

    cdef int _apply(self, object changes) except -1:
        cdef Py_ssize_t changed_depth = UNCHANGED, index, depth
        cdef double amount, key
        for level in changes:
            amount = amount_of(level)
            key = price_of(level) * self._sign
            index = self._index(key)
            depth = self._size - index - 1
            if depth < 0 or self._keys[index] != key:
                if amount == 0:
                    continue
                depth += 1
                self._insert(index, key, amount, level)
                if depth < self._texts:
                    self._insert_text(depth, level)
            elif amount == 0:
                self._remove(index)
                if depth < self._texts:
                    self._remove_text(depth)
            elif amount == self._amounts[index]:
                continue
            else:
                self._amounts[index] = amount
                self.levels[index] = level
                if depth < self._texts:
                    self._remove_text(depth)
                    self._insert_text(depth, level)
            if depth < changed_depth:
                changed_depth = depth
        self.changed_depth = changed_depth
        self._changes = changes
        return 0

    def remove_best(self):
        """Drop the best level."""
        self._remove(self._size - 1)
        if self._texts:
            self._remove_text(0)
        self._changes = ()
        self.changed_depth = 0

    cdef Py_ssize_t _index(self, double key) noexcept:
        """Search from the best level on: most changes are near it."""
        cdef Py_ssize_t high = self._size, low = high - 1, step = 1, middle
        while low >= 0 and self._keys[low] >= key:
            high = low
            low -= step
            step *= 2
        low = low + 1 if low >= 0 else 0
        while low < high:
            middle = (low + high) // 2
            if self._keys[middle] < key:
                low = middle + 1
            else:
                high = middle
        return low

    cdef int _insert(self, Py_ssize_t index, double key, double amount, object level) except -1:
        cdef Py_ssize_t behind = (self._size - index) * sizeof(double)
        self._reserve(self._size + 1)
        PyList_Insert(self.levels, index, level)
        memmove(self._keys + index + 1, self._keys + index, behind)
        memmove(self._amounts + index + 1, self._amounts + index, behind)
        self._keys[index] = key
        self._amounts[index] = amount
        self._size += 1
        return 0

    cdef int _remove(self, Py_ssize_t index) except -1:
        cdef Py_ssize_t behind = (self._size - index - 1) * sizeof(double)
        del self.levels[index]
        memmove(self._keys + index, self._keys + index + 1, behind)
        memmove(self._amounts + index, self._amounts + index + 1, behind)
        self._size -= 1
        return 0

    cdef int _reserve(self, Py_ssize_t size) except -1:
        """Make room for levels."""
        if size > self._room:
            size += size // 2 + 16
            self._keys = <double*>grown(self._keys, size * sizeof(double))
            self._amounts = <double*>grown(self._amounts, size * sizeof(double))
            self._room = size
        return 0

    cdef int _insert_text(self, Py_ssize_t depth, object level) except -1:
        """Put the text of a level where it belongs; the last one gives way when all are there."""
        cdef bytes text = encode(level)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(text) + 1, start, place
        if self._ends is NULL:
            self._ends = <Py_ssize_t*>grown(NULL, self._text_depth * sizeof(Py_ssize_t))
        if self._texts == self._text_depth:
            self._texts -= 1
        start = self._ends[depth - 1] if depth else 0
        cdef Py_ssize_t end = self._ends[self._texts - 1] if self._texts else 0
        if end + size > self._text_room:
            self._text_room = (end + size) * 2
            self._text = <char*>grown(self._text, self._text_room)
        memmove(self._text + start + size, self._text + start, end - start)
        memcpy(self._text + start, PyBytes_AS_STRING(text), size - 1)
        self._text[start + size - 1] = c","
        for place in range(self._texts, depth, -1):
            self._ends[place] = self._ends[place - 1] + size
        self._ends[depth] = start + size
        self._texts += 1
        return 0

    cdef void _remove_text(self, Py_ssize_t depth) noexcept:
        cdef Py_ssize_t start = self._ends[depth - 1] if depth else 0, place
        cdef Py_ssize_t end = self._ends[depth], size = end - start
        memmove(self._text + start, self._text + end, self._ends[self._texts - 1] - end)
        for place in range(depth, self._texts - 1):
            self._ends[place] = self._ends[place + 1] - size
        self._texts -= 1


cdef void* grown(void* memory, Py_ssize_t size) except NULL:
    cdef void* larger = PyMem_Realloc(memory, size)
    if larger is NULL:
        raise MemoryError
    return larger


cdef class CompiledOrderBook:
    """Both sides of one market, kept by its book changes; the arguments are those of `OrderBook`."""

    def __cinit__(
        self,
        *,
        bint removes_crossed_levels=False,
        object on_removal=None,
        Py_ssize_t text_depth=0,
    ):
        self.bids = CompiledBookSide(is_bid=True, text_depth=text_depth)
        self.asks = CompiledBookSide(is_bid=False, text_depth=text_depth)
        self._removes_crossed_levels = removes_crossed_levels
        self._on_removal = on_removal

    def apply(self, change):
        """Apply one book change; changes before the first snapshot are ignored."""
        self.follow(change)

    cdef int follow(self, object change) except -1:
        cdef CompiledBookSide bids = self.bids, asks = self.asks
        if type(change) is change_type:
            new_bids, new_asks = field(change, change_bids), field(change, change_asks)
            is_snapshot = field(change, change_is_snapshot)
        else:
            new_bids, new_asks, is_snapshot = change.bids, change.asks, change.is_snapshot
        if is_snapshot:
            self._has_snapshot = True
            asks._load(new_asks)
            bids._load(new_bids)
        elif self._has_snapshot:
            apply_side(asks, new_asks)
            apply_side(bids, new_bids)
        # Only a new best level can cross the book.
        if (
            self._removes_crossed_levels
            and (bids.changed_depth == 0 or asks.changed_depth == 0)
            and self._is_crossed()
        ):
            self._remove_crossed(new_asks)
        return 0

    cdef bint _is_crossed(self) noexcept:
        cdef CompiledBookSide bids = self.bids, asks = self.asks
        return (
            bids._size > 0
            and asks._size > 0
            and bids._keys[bids._size - 1] >= -asks._keys[asks._size - 1]
        )

    cdef int _remove_crossed(self, object new_asks) except -1:
        """Drop best levels of the side that this change shows to be stale, until none cross."""
        ask = self.asks.best
        is_ask_fresh = ask is not None and any([new.price == ask.price for new in new_asks])
        cdef CompiledBookSide stale = self.bids if is_ask_fresh else self.asks
        while self._is_crossed():
            bid_before, ask_before = self.bids.best, self.asks.best
            stale.remove_best()
            if self._on_removal is not None:
                removal = CrossedRemoval(bid_before, self.bids.best, ask_before, self.asks.best)
                self._on_removal(removal)
        return 0


cdef int apply_side(CompiledBookSide side, object changes) except -1:
    if changes:
        side._apply(changes)
    else:
        side.changed_depth = UNCHANGED
    return 0
