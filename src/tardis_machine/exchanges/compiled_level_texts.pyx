"""Levels of a venue's book message, rewritten to the JSON of a book change without reading numbers.

Every byte is checked. Levels are an array of arrays of texts and numbers, without blanks; a price or
an amount is a plain decimal that JSON has too, bare or as text. For anything else the answer is
None, and whoever asked decodes the message to numbers. What follows the amount is not used.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject, PyTypeObject, newfunc
from libc.string cimport memcpy

from msgspec import Raw

from tardis_machine.exchanges.decoding.json_text cimport (
    Span,
    Text,
    is_word,
    read_decimal,
    read_string,
    skip,
)

cdef object NO_LEVELS = Raw(b"[]")
# A call of the class looks for more than what makes one.
cdef newfunc NEW_RAW = (<PyTypeObject *>Raw).tp_new

cdef enum:
    # `[1,2],` becomes `{"price":1,"amount":2},`: no level grows more.
    GROWTH = 4
    BRACKETS_BYTES = 2
    STACK_BYTES = 8192

cdef struct Level:
    Span label
    Span price
    Span amount

cdef struct Side:
    char *start
    char *at


cdef object rewritten_levels(Text *text, Form form, Span *buyers):
    """Return the levels that come next in a message as `msgspec.Raw`, and pass over them.

    Of the form `SIDES` it is a pair: the levels that say the word of the buyers, and the others.
    One of the form `ACTIONS` to `delete` gets the amount 0. None: what comes is not levels alone.
    """
    cdef Py_ssize_t room = GROWTH * (text.end - text.at) + BRACKETS_BYTES
    cdef char stack[STACK_BYTES]
    cdef char *memory = stack
    cdef Side first, second
    if 2 * room > STACK_BYTES:
        memory = <char *>PyMem_Malloc(2 * room)
        if memory is NULL:
            raise MemoryError
    try:
        first.start = first.at = memory
        second.start = second.at = memory + room
        if not _copy_levels(text, form, buyers, &first, &second):
            return None
        if form == SIDES:
            return _array(&first), _array(&second)
        return _array(&first)
    finally:
        if memory is not stack:
            PyMem_Free(memory)


cdef object _array(Side *side):
    """Close a side: each of its levels begins with a comma, or with the bracket of the first."""
    if side.at == side.start:
        return NO_LEVELS
    side.at[0] = c"]"
    text = PyBytes_FromStringAndSize(side.start, side.at - side.start + 1)
    arguments = (text,)
    return NEW_RAW(Raw, <PyObject *>arguments, NULL)


cdef bint _copy_levels(
    Text *text, Form form, Span *buyers, Side *first, Side *second
) noexcept nogil:
    """Write every level to its side; false for what is not levels alone."""
    cdef Level level
    level.label.start, level.label.size = NULL, 0
    if not skip(text, c"["):
        return False
    if skip(text, c"]"):
        return True
    while True:
        if not _read_level(text, form, &level):
            return False
        if form == SIDES and not is_word(&level.label, buyers.start, buyers.size):
            _write_level(second, &level)
        else:
            _write_level(first, &level)
        if not skip(text, c","):
            return skip(text, c"]")


cdef bint _read_level(Text *text, Form form, Level *level) noexcept nogil:
    if not skip(text, c"["):
        return False
    if form != PAIRS and not (read_string(text, &level.label) and skip(text, c",")):
        return False
    if not (read_decimal(text, &level.price) and skip(text, c",")):
        return False
    if not read_decimal(text, &level.amount):
        return False
    if form == ACTIONS and is_word(&level.label, b"delete", 6):
        level.amount.start = b"0"
        level.amount.size = 1
    while not skip(text, c"]"):
        if not (skip(text, c",") and _skip_entry(text)):
            return False
    return True


cdef inline void _write_level(Side *side, Level *level) noexcept nogil:
    side.at[0] = c"[" if side.at == side.start else c","
    side.at += 1
    _write(side, b'{"price":', 9)
    _write(side, level.price.start, level.price.size)
    _write(side, b',"amount":', 10)
    _write(side, level.amount.start, level.amount.size)
    side.at[0] = c"}"
    side.at += 1


cdef inline void _write(Side *side, const char *start, Py_ssize_t size) noexcept nogil:
    memcpy(side.at, start, size)
    side.at += size


cdef bint _skip_entry(Text *text) noexcept nogil:
    """Pass over a text or a decimal."""
    cdef Span ignored
    if text.at != text.end and text.at[0] == c'"':
        return read_string(text, &ignored)
    return read_decimal(text, &ignored)
