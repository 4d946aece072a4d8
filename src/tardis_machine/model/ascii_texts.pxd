"""Texts of ASCII characters, made and read without looking at each of them."""

from libc.stdint cimport uint64_t
from libc.string cimport memcpy


cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t size, unsigned int largest)
    void *PyUnicode_DATA(object text)
    bint PyUnicode_IS_ASCII(object text)


cdef inline str ascii_text(const char *start, Py_ssize_t size):
    """Return a text of characters of which the caller knows that they are ASCII."""
    cdef object text = PyUnicode_New(size, 127)
    memcpy(PyUnicode_DATA(text), start, size)
    return <str>text


cdef inline const char *characters_of(object text) noexcept:
    """Return the characters of a text of which the caller knows that they are ASCII."""
    return <const char *>PyUnicode_DATA(text)


cdef inline bint has_special(const char *at) noexcept nogil:
    """Say whether one of eight characters is not plain: not ASCII, or not itself in a JSON text."""
    cdef uint64_t eight, quotes, escapes
    cdef uint64_t ones = 0x0101010101010101ULL, highs = 0x8080808080808080ULL
    memcpy(&eight, at, 8)
    # A byte is zero where the character is there; taking one from it borrows from its highest bit.
    quotes = eight ^ (ones * 0x22)
    escapes = eight ^ (ones * 0x5C)
    quotes = (quotes - ones) & ~quotes
    escapes = (escapes - ones) & ~escapes
    return ((quotes | escapes | (eight - ones * 0x20) | eight) & highs) != 0
