# cython: cdivision=True
"""Trades and book changes as NDJSON, byte for byte as msgspec writes them.

Whatever is unusual about a record, msgspec writes it: a text with characters to escape, a side that is
no list, a number that is no double. Numbers of more than 15 digits are left to it one by one.
"""

from cython cimport final

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact, PyUnicode_GET_LENGTH
from libc.math cimport signbit
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from msgspec import UNSET, Raw

from tardis_machine.model.records import BookChange, BookLevel, EncodedBookChange, Trade

from tardis_machine.model.ascii_texts cimport PyUnicode_IS_ASCII, characters_of, has_special
from tardis_machine.model.struct_fields cimport field, offset_of

cdef enum:
    FIRST_BYTES = 64 * 1024
    # Memory of more is given back after use.
    MOST_KEPT_BYTES = 1024 * 1024
    NUMBER_BYTES = 32
    MOST_DECIMALS = 9

# Decimals of up to 15 digits are told apart by doubles, so that the one found is the shortest.
cdef uint64_t FIRST_LONG = 1_000_000_000_000_000
cdef double[MOST_DECIMALS + 1] POWERS
POWERS[:] = [10.0**power for power in range(MOST_DECIMALS + 1)]

cdef object TRADE = Trade
cdef object CHANGE = BookChange
cdef object TEXT_CHANGE = EncodedBookChange
cdef object LEVEL = BookLevel
cdef object RAW = Raw
cdef object ABSENT = UNSET

cdef Py_ssize_t[8] TRADE_PLACES
cdef Py_ssize_t[7] CHANGE_PLACES
cdef Py_ssize_t[7] TEXT_CHANGE_PLACES
cdef Py_ssize_t LEVEL_PRICE = offset_of(BookLevel, "price")
cdef Py_ssize_t LEVEL_AMOUNT = offset_of(BookLevel, "amount")
TRADE_PLACES[:] = [offset_of(Trade, name) for name in Trade.__struct_fields__]
CHANGE_PLACES[:] = [offset_of(BookChange, name) for name in BookChange.__struct_fields__]
TEXT_CHANGE_PLACES[:] = [
    offset_of(EncodedBookChange, name) for name in EncodedBookChange.__struct_fields__
]


@final
cdef class Lines:
    """Bytes that are written to."""

    cdef char *memory
    cdef Py_ssize_t size
    cdef Py_ssize_t room
    cdef object encode
    cdef PyObject *symbol
    cdef PyObject *exchange

    def __cinit__(self):
        self.memory = <char *>PyMem_Malloc(FIRST_BYTES)
        if self.memory is NULL:
            raise MemoryError
        self.room = FIRST_BYTES

    def __dealloc__(self):
        PyMem_Free(self.memory)

    cdef inline char *reserve(self, Py_ssize_t size) except NULL:
        """Return where the next bytes go, of which there are no more than `size`."""
        return self.grown(size) if self.size + size > self.room else self.memory + self.size

    cdef char *grown(self, Py_ssize_t size) except NULL:
        cdef Py_ssize_t room = 2 * self.room + size
        cdef char *memory = <char *>PyMem_Realloc(self.memory, room)
        if memory is NULL:
            raise MemoryError
        self.memory, self.room = memory, room
        return memory + self.size

    cdef inline int write(self, const char *start, Py_ssize_t size) except -1:
        memcpy(self.reserve(size), start, size)
        self.size += size
        return 0

    cdef inline bint write_text(self, object text) except -1:
        """Write the characters of a text, if none of them must be escaped."""
        if not PyUnicode_CheckExact(text) or not PyUnicode_IS_ASCII(text):
            return False
        if not _is_plain(characters_of(text), PyUnicode_GET_LENGTH(text)):
            return False
        self.write(characters_of(text), PyUnicode_GET_LENGTH(text))
        return True

    cdef inline bint write_known(self, object text, PyObject **known) except -1:
        """Write a text that is mostly the one before it, which needs no second look."""
        if <PyObject *>text == known[0]:
            self.write(characters_of(text), PyUnicode_GET_LENGTH(text))
            return True
        if not self.write_text(text):
            return False
        known[0] = <PyObject *>text
        return True

    cdef inline int write_number(self, object number) except -1:
        cdef Py_ssize_t size = 0
        if PyFloat_CheckExact(number):
            size = _write_double(self.reserve(NUMBER_BYTES), PyFloat_AS_DOUBLE(number))
            self.size += size
        if not size:
            self.write_slowly(number)
        return 0

    cdef int write_slowly(self, object value) except -1:
        cdef bytes text = self.encode(value)
        self.write(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        return 0

    cdef inline bint write_head(self, object symbol, object exchange) except -1:
        """Write what follows the type, up to the exchange."""
        if not self.write_known(symbol, &self.symbol):
            return False
        self.write(b'","exchange":"', 14)
        return self.write_known(exchange, &self.exchange)

    cdef inline bint write_times(self, object timestamp, object local) except -1:
        self.write(b',"timestamp":"', 14)
        if not self.write_text(timestamp):
            return False
        self.write(b'","localTimestamp":"', 20)
        if not self.write_text(local):
            return False
        self.write(b'"}\n', 3)
        return True

    cdef bint write_trade(self, object record) except -1:
        self.write(b'{"type":"trade","symbol":"', 26)
        if not self.write_head(field(record, TRADE_PLACES[0]), field(record, TRADE_PLACES[1])):
            return False
        id_ = field(record, TRADE_PLACES[2])
        if id_ is not ABSENT:
            self.write(b'","id":"', 8)
            if not self.write_text(id_):
                return False
        self.write(b'","price":', 10)
        self.write_number(field(record, TRADE_PLACES[3]))
        self.write(b',"amount":', 10)
        self.write_number(field(record, TRADE_PLACES[4]))
        self.write(b',"side":"', 9)
        if not self.write_text(field(record, TRADE_PLACES[5])):
            return False
        self.write(b'"', 1)
        return self.write_times(field(record, TRADE_PLACES[6]), field(record, TRADE_PLACES[7]))

    cdef bint write_change(self, object record, Py_ssize_t *places, bint is_text) except -1:
        self.write(b'{"type":"book_change","symbol":"', 32)
        if not self.write_head(field(record, places[0]), field(record, places[1])):
            return False
        is_snapshot = field(record, places[2])
        if is_snapshot is True:
            self.write(b'","isSnapshot":true,"bids":', 27)
        elif is_snapshot is False:
            self.write(b'","isSnapshot":false,"bids":', 28)
        else:
            return False
        if not self.write_side(field(record, places[3]), is_text):
            return False
        self.write(b',"asks":', 8)
        if not self.write_side(field(record, places[4]), is_text):
            return False
        return self.write_times(field(record, places[5]), field(record, places[6]))

    cdef inline bint write_side(self, object side, bint is_text) except -1:
        if is_text:
            return self.write_raw(side)
        return self.write_levels(<list>side) if type(side) is list else False

    cdef bint write_raw(self, object side) except -1:
        cdef Py_buffer buffer
        if type(side) is not RAW:
            return False
        PyObject_GetBuffer(side, &buffer, PyBUF_SIMPLE)
        try:
            self.write(<const char *>buffer.buf, buffer.len)
        finally:
            PyBuffer_Release(&buffer)
        return True

    cdef bint write_levels(self, list levels) except -1:
        cdef Py_ssize_t place
        self.write(b"[", 1)
        for place in range(len(levels)):
            level = levels[place]
            if type(level) is not LEVEL:
                return False
            if place:
                self.write(b",", 1)
            self.write(b'{"price":', 9)
            self.write_number(field(level, LEVEL_PRICE))
            self.write(b',"amount":', 10)
            self.write_number(field(level, LEVEL_AMOUNT))
            self.write(b"}", 1)
        self.write(b"]", 1)
        return True

    cdef bint write_record(self, object record) except -1:
        """Write a line, if the record is usual."""
        cdef Py_ssize_t start = self.size
        cdef bint is_written
        if type(record) is TEXT_CHANGE:
            is_written = self.write_change(record, TEXT_CHANGE_PLACES, True)
        elif type(record) is CHANGE:
            is_written = self.write_change(record, CHANGE_PLACES, False)
        elif type(record) is TRADE:
            is_written = self.write_trade(record)
        else:
            return False
        if not is_written:
            self.size = start
        return is_written


cdef Lines spare = None


def line_encoder(encoder):
    """Return `encode_lines` of an encoder of msgspec, which writes what is not usual."""
    encode, encode_all = encoder.encode, encoder.encode_lines

    def encode_lines(records, /):
        global spare
        cdef Lines lines = spare
        cdef Py_ssize_t place = 0, start
        if type(records) is not list:
            return encode_all(records)
        # Nobody else uses it meanwhile.
        spare = None
        if lines is None:
            lines = Lines()
        lines.encode = encode
        lines.size, lines.symbol, lines.exchange = 0, NULL, NULL
        while place < len(<list>records):
            if lines.write_record((<list>records)[place]):
                place += 1
                continue
            # Neighbours are written in one call.
            start = place
            place += 1
            while place < len(<list>records) and not _is_known((<list>records)[place]):
                place += 1
            others = encode_all((<list>records)[start:place])
            lines.write(PyBytes_AS_STRING(others), PyBytes_GET_SIZE(others))
        if lines.room <= MOST_KEPT_BYTES:
            spare = lines
        return PyBytes_FromStringAndSize(lines.memory, lines.size)

    return encode_lines


cdef inline bint _is_known(object record) noexcept:
    return type(record) is TEXT_CHANGE or type(record) is CHANGE or type(record) is TRADE


cdef inline bint _is_plain(const char *at, Py_ssize_t size) noexcept:
    """Say whether no character of an ASCII text must be escaped."""
    cdef const char *end = at + size
    while end - at >= 8:
        if has_special(at):
            return False
        at += 8
    while at != end:
        if at[0] == c'"' or at[0] == c"\\" or <unsigned char>at[0] < 0x20:
            return False
        at += 1
    return True


cdef inline Py_ssize_t _write_double(char *out, double value) noexcept:
    """Write a decimal of few digits, and return how many characters; 0 for any other number."""
    cdef Py_ssize_t decimals, size = 0
    cdef uint64_t digits
    if value < 0:
        out[0] = c"-"
        out += 1
        size = 1
        value = -value
    if value == 0 and not signbit(value):
        memcpy(out, b"0.0", 3)
        return 3
    if not 1e-5 <= value < 1e14:
        return 0
    for decimals in range(MOST_DECIMALS + 1):
        digits = <uint64_t>(value * POWERS[decimals] + 0.5)
        if digits >= FIRST_LONG:
            return 0
        if <double>digits / POWERS[decimals] == value:
            return size + _write_decimal(out, digits, decimals)
    return 0


cdef inline Py_ssize_t _write_decimal(char *out, uint64_t digits, Py_ssize_t decimals) noexcept:
    """Write a number of so many decimals; a whole one gets a zero as its only decimal."""
    cdef char[NUMBER_BYTES] backwards
    cdef Py_ssize_t size = 0, place
    if decimals == 0:
        digits, decimals = digits * 10, 1
    while digits or size <= decimals:
        backwards[size] = c"0" + <char>(digits % 10)
        digits //= 10
        size += 1
    for place in range(size - decimals):
        out[place] = backwards[size - 1 - place]
    out[size - decimals] = c"."
    for place in range(decimals):
        out[size - decimals + 1 + place] = backwards[decimals - 1 - place]
    return size + 1
