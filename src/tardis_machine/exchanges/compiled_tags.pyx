"""Cuts the keys of tags out of the lines of a chunk."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

cdef enum:
    SEEN_BITS = 6
    SEEN = 1 << SEEN_BITS


def start_keys(list lines, Py_ssize_t start, Py_ssize_t tag_start, bytes end):
    """Cut the message of each line, which begins at `start`, where the text at `tag_start` ends."""
    cdef list keys = []
    cdef PyObject *seen[SEEN]
    memset(seen, 0, sizeof(seen))
    cdef bytes line
    cdef const char *text
    cdef const char *found
    cdef char last = end[0]
    for line in lines:
        text = PyBytes_AS_STRING(line)
        found = NULL
        if PyBytes_GET_SIZE(line) > tag_start:
            found = <const char *>memchr(text + tag_start, last, PyBytes_GET_SIZE(line) - tag_start)
        if found is NULL:
            keys.append(line[start:-1])
        else:
            keys.append(_key(seen, text + start, found - text - start))
    return keys


cdef inline object _key(PyObject **seen, const char *start, Py_ssize_t size):
    """Return a key, the same object as before where a line before had it: its hash is known."""
    cdef uint64_t last = 0
    cdef Py_ssize_t count = min(size, 8)
    if size <= 0:
        return b""
    memcpy(&last, start + size - count, count)
    cdef PyObject **known = &seen[((last + size) * 0x9E3779B97F4A7C15ULL) >> (64 - SEEN_BITS)]
    if (
        known[0] is not NULL
        and PyBytes_GET_SIZE(<object>known[0]) == size
        and memcmp(PyBytes_AS_STRING(<object>known[0]), start, size) == 0
    ):
        return <object>known[0]
    key = PyBytes_FromStringAndSize(start, size)
    # The list of the keys holds it while this is used.
    known[0] = <PyObject *>key
    return key
