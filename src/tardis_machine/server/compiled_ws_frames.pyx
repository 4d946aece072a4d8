"""WebSocket text frames of the lines of a chunk."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcpy

cdef enum:
    FINAL_TEXT = 0x81
    # What stands for the length of longer messages.
    TWO_BYTES = 126
    EIGHT_BYTES = 127


def line_frames(bytes lines):
    """Return the frames of lines, one for each, ready to be written."""
    cdef const char *at = PyBytes_AS_STRING(lines)
    cdef const char *end = at + PyBytes_GET_SIZE(lines)
    cdef const char *line_end
    cdef Py_ssize_t size = 0, length
    cdef bytes frames
    cdef char *out
    while (line_end := _line_end(at, end)) is not NULL:
        length = line_end - at
        size += _header_size(length) + length
        at = line_end + 1
    frames = PyBytes_FromStringAndSize(NULL, size)
    at, out = PyBytes_AS_STRING(lines), PyBytes_AS_STRING(frames)
    while (line_end := _line_end(at, end)) is not NULL:
        length = line_end - at
        out = _write_header(out, length)
        memcpy(out, at, length)
        out += length
        at = line_end + 1
    return frames


cdef inline const char *_line_end(const char *at, const char *end) noexcept:
    return <const char *>memchr(at, c"\n", end - at)


cdef inline Py_ssize_t _header_size(Py_ssize_t length) noexcept:
    if length < TWO_BYTES:
        return 2
    return 4 if length < 65_536 else 10


cdef inline char *_write_header(char *out, Py_ssize_t length) noexcept:
    """Write the header of an unmasked, final text frame, and return where it ends."""
    cdef Py_ssize_t count = _header_size(length) - 2
    cdef Py_ssize_t place
    out[0] = <char>FINAL_TEXT
    if count == 0:
        out[1] = <char>length
    else:
        out[1] = <char>(TWO_BYTES if count == 2 else EIGHT_BYTES)
        for place in range(count):
            out[2 + place] = <char>((length >> (8 * (count - 1 - place))) & 0xFF)
    return out + 2 + count
