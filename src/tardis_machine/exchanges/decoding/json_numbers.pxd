"""Numbers of messages, as msgspec reads them."""

from cython cimport cdivision

from cpython.float cimport PyFloat_FromDouble
from cpython.long cimport PyLong_FromLongLong, PyLong_FromString
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from tardis_machine.exchanges.decoding.json_text cimport Text, skip, skip_exponent


cdef extern from *:
    """
    /* A whole number up to 2**53 and a power of ten up to 10**22 are doubles without rounding, and so
       their quotient is the double next to the decimal. */
    static const unsigned long long LAST_EXACT = 1ULL << 53;
    static const double POWERS[] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19
    };
    """
    const uint64_t LAST_EXACT
    const double *POWERS


cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow) except? -1.0


cdef enum:
    MOST_DIGITS = 19
    LONG_NUMBER_BYTES = 60


cdef inline PyObject *new_reference(object value) noexcept:
    """Return a value that is counted once more."""
    Py_INCREF(value)
    return <PyObject *>value


@cdivision(True)
cdef inline PyObject *read_number(Text *text, bint is_double) except? NULL:
    """Return the double next to a decimal, or a whole number; NULL for one that is not usual."""
    cdef const char *start = text.at
    cdef bint is_negative = skip(text, c"-")
    cdef const char *first = text.at
    cdef const char *point = NULL
    cdef uint64_t digits = 0
    cdef Py_ssize_t decimals = 0, size
    while text.at != text.end:
        if c"0" <= text.at[0] <= c"9":
            digits = digits * 10 + <unsigned char>(text.at[0] - c"0")
        elif text.at[0] == c"." and point is NULL and text.at != first:
            point = text.at
        else:
            break
        text.at += 1
    size = text.at - first
    if point is not NULL:
        decimals = text.at - point - 1
        size -= 1
        if not decimals:
            return NULL
    if not size or (first[0] == c"0" and size > decimals + 1) or (is_negative and not digits):
        return NULL
    if not is_double:
        if point is not NULL:
            return NULL
        if size >= MOST_DIGITS:
            return _read_long_integer(start, text)
        if is_negative:
            return new_reference(PyLong_FromLongLong(-<long long>digits))
        return new_reference(PyLong_FromLongLong(<long long>digits))
    if size > MOST_DIGITS or digits > LAST_EXACT or _has_exponent(text):
        return _read_long_number(start, text)
    value = <double>digits / POWERS[decimals]
    return new_reference(PyFloat_FromDouble(-value if is_negative else value))


cdef inline bint _has_exponent(Text *text) noexcept:
    return text.at != text.end and (text.at[0] == c"e" or text.at[0] == c"E")


cdef inline PyObject *_read_long_number(const char *start, Text *text) except? NULL:
    """Read a number as Python does, which rounds once whatever its digits are."""
    cdef char[LONG_NUMBER_BYTES + 1] copy
    if not skip_exponent(text) or not _copy_number(copy, start, text):
        return NULL
    return new_reference(PyFloat_FromDouble(PyOS_string_to_double(copy, NULL, NULL)))


cdef inline PyObject *_read_long_integer(const char *start, Text *text) except? NULL:
    cdef char[LONG_NUMBER_BYTES + 1] copy
    return new_reference(PyLong_FromString(copy, NULL, 10)) if _copy_number(copy, start, text) else NULL


cdef inline bint _copy_number(char *copy, const char *start, Text *text) noexcept:
    """Copy what was passed over, because functions of Python want a zero at its end."""
    cdef Py_ssize_t size = text.at - start
    if size > LONG_NUMBER_BYTES:
        return False
    memcpy(copy, start, size)
    copy[size] = 0
    return True
