"""What the loop over recorded lines calls without copying their messages."""

from cpython.object cimport PyObject


cdef struct Field:
    const char *name
    Py_ssize_t name_size
    int kinds
    Py_ssize_t offset
    PyObject *default
    PyObject *factory
    PyObject *part
    PyObject *words
    # The place of the field that came after it last time.
    Py_ssize_t next


cdef class Shape:
    cdef readonly object struct
    cdef readonly bint is_array
    cdef object fields_kept
    cdef Field *fields
    cdef Py_ssize_t count


cdef class MessageDecoder:
    cdef Shape shape
    cdef object decode_slowly

    cdef object decode(self, const char *start, Py_ssize_t size)
