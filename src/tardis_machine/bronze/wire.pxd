"""Numbers and times as Protobuf writes them.

Every function writes at a place and returns the place behind it.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy


cdef enum:
    # Tags of a timestamp's fields: their number, and that they are varints.
    SECONDS = 1 << 3
    NANOS = 2 << 3


cdef struct Instant:
    int64_t second
    int64_t nanos
    int digits


cdef inline Py_ssize_t varint_size(uint64_t number) noexcept:
    cdef Py_ssize_t size = 1
    while number > 127:
        number >>= 7
        size += 1
    return size


cdef inline uint8_t* varint(uint8_t* at, uint64_t number) noexcept:
    while number > 127:
        at[0] = <uint8_t>(number & 127 | 128)
        at += 1
        number >>= 7
    at[0] = <uint8_t>number
    return at + 1


cdef inline uint8_t* tagged(uint8_t* at, uint8_t tag, uint64_t number) noexcept:
    """Write a tag and a number, which is the value or its size."""
    at[0] = tag
    return varint(at + 1, number)


cdef inline uint8_t* copied(uint8_t* at, const uint8_t* source, Py_ssize_t size) noexcept:
    memcpy(at, source, size)
    return at + size


cdef inline uint64_t bits(double number) noexcept:
    cdef uint64_t found
    memcpy(&found, &number, 8)
    return found


cdef inline Py_ssize_t double_size(double number) noexcept:
    """Return the size of a field; positive zero is left out, as Protobuf does."""
    return 9 if bits(number) else 0


cdef inline uint8_t* double_field(uint8_t* at, uint8_t tag, double number) noexcept:
    if not bits(number):
        return at
    at[0] = tag
    return little_endian(at + 1, number)


cdef inline uint8_t* little_endian(uint8_t* at, double number) noexcept:
    cdef uint64_t rest = bits(number)
    cdef int place
    for place in range(8):
        at[place] = <uint8_t>(rest >> 8 * place)
    return at + 8


cdef inline Py_ssize_t time_size(Instant* time) noexcept:
    cdef Py_ssize_t size = 0
    if time.second:
        size += 1 + varint_size(time.second)
    if time.nanos:
        size += 1 + varint_size(time.nanos)
    return size


cdef inline Py_ssize_t time_field_size(Instant* time) noexcept:
    return 2 + time_size(time)


cdef inline uint8_t* time_field(uint8_t* at, uint8_t tag, Instant* time) noexcept:
    at = tagged(at, tag, time_size(time))
    if time.second:
        at = tagged(at, SECONDS, time.second)
    if time.nanos:
        at = tagged(at, NANOS, time.nanos)
    return at
