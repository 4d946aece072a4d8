# cython: language_level=3, boundscheck=False, wraparound=False
"""`blocks.py` in Cython: the same envelopes, byte for byte, in a quarter of the time.

Trades, liquidations and book changes are written by `compiled_payloads.pyx`. All other payloads, and
whatever is unusual about those, go the way of `blocks.py`, through the generated messages.
"""

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_GET_LENGTH
from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from tardis_machine.bronze.blocks import rejection
from tardis_machine.bronze.envelope import Envelope
from tardis_machine.bronze.series import Series
from tardis_machine.bronze.slots import Slot

from tardis_machine.bronze.compiled_payloads cimport Layout, layout_of, write_record
from tardis_machine.bronze.wire cimport Instant, copied
from tardis_machine.model.struct_fields cimport field, offset_of


cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    uint8_t* PyUnicode_1BYTE_DATA(object text)
    str PyUnicode_New(Py_ssize_t size, Py_UCS4 highest)


# How much of a time is its second, and where its fraction ends.
cdef enum:
    SECOND_CHARS = 20
    MS_CHARS = 24
    US_CHARS = 27
    KNOWN_SECONDS = 8

cdef struct Second:
    uint8_t[SECOND_CHARS] text
    int64_t second


cdef object envelope_type = Envelope
cdef object series_type = Series
cdef Py_ssize_t slot_series = offset_of(Slot, "series")
cdef Py_ssize_t slot_label = offset_of(Slot, "label")
cdef Py_ssize_t slot_head = offset_of(Slot, "head")
cdef Py_ssize_t slot_writer = offset_of(Slot, "writer")
cdef Py_ssize_t slot_partial = offset_of(Slot, "partial")
cdef Py_ssize_t envelope_series = offset_of(Envelope, "series")
cdef Py_ssize_t envelope_local_us = offset_of(Envelope, "local_us")
cdef Py_ssize_t envelope_ordinal = offset_of(Envelope, "ordinal")
cdef Py_ssize_t series_label = offset_of(Series, "label")
cdef Py_ssize_t series_identity_end = offset_of(Series, "identity_end")


cdef class CompiledBlockEncoder:
    """Encodes the records of one stream; the arguments are those of `PythonBlockEncoder`."""

    cdef dict _slots_of
    cdef object _read_time
    cdef object _ordinals
    cdef Second[KNOWN_SECONDS] _seconds
    cdef int _next_second

    def __init__(self, slots_of, read_time, ordinals):
        self._slots_of = slots_of
        self._read_time = read_time
        self._ordinals = ordinals
        self._next_second = 0

    def encode(self, records, bytes stamp, left_out, list envelopes, on_reject):
        """Append an envelope for each record, None where there is none."""
        cdef Layout* layout
        cdef Instant local, time
        cdef dict counts = {}
        cdef str label
        cdef object local_text = None, local_us = 0
        cdef object text, slots, slot, writer, ordinal, data
        local.second = local.nanos = local.digits = 0
        for record in records:
            try:
                layout = layout_of(record)
                slots = self._slots_of[type(record)]
                if layout is NULL:
                    slot = slots[slots.key(record)]
                    text = record.local_timestamp
                else:
                    slot = find_slot(slots, record, layout)
                    text = field(record, layout.local_timestamp)
                # The records of one message stand together and have the same local time.
                if text != local_text:
                    self._read(text, &time)
                    local = time
                    local_us = local.second * 1_000_000 + local.nanos // 1000
                    local_text = text
                    counts = self._ordinals.at(local_us)
                label = field(slot, slot_label)
                ordinal = next_ordinal(counts, label)
                writer = field(slot, slot_writer)
                if writer is None:
                    left_out[field(slot, slot_series).case] += 1
                    envelopes.append(None)
                    continue
                if field(slot, slot_partial) is not None:
                    slot = slot.at(local_us)
                data = None
                if layout is not NULL and ordinal <= INT_MAX:
                    self._read(field(record, layout.timestamp), &time)
                    head = field(slot, slot_head)
                    data = write_record(record, layout, head, stamp, &local, &time, ordinal)
                if data is None:
                    body = writer.write(record, (local.second, local.nanos, local.digits), ordinal)
                    data = field(slot, slot_head) + stamp + body
            except (ValueError, TypeError, LookupError, OverflowError) as error:
                on_reject(len(envelopes), rejection(record, error))
                envelopes.append(None)
                continue
            envelopes.append(envelope_type(field(slot, slot_series), local_us, ordinal, data))

    cdef int _read(self, object text, Instant* instant) except -1:
        """Parse a time, at once if its second is known."""
        if not self._read_known(text, instant):
            second, nanos, digits = self._read_time(text)
            instant.second = second
            instant.nanos = nanos
            instant.digits = digits
            self._remember(text, instant.second)
        return 0

    cdef bint _read_known(self, object text, Instant* instant) noexcept:
        """Parse a time whose second is known and that has three or six digits behind it."""
        cdef Py_ssize_t size
        cdef uint8_t* chars
        cdef int place, millis, micros = 0
        if type(text) is not str or not PyUnicode_IS_COMPACT_ASCII(text):
            return False
        size = PyUnicode_GET_LENGTH(text)
        chars = PyUnicode_1BYTE_DATA(text)
        if (size != MS_CHARS and size != US_CHARS) or chars[size - 1] != c"Z":
            return False
        # Places that hold no second yet are full of zeros, which no second ends with.
        if chars[SECOND_CHARS - 1] != c".":
            return False
        for place in range(KNOWN_SECONDS):
            if memcmp(chars, self._seconds[place].text, SECOND_CHARS) == 0:
                break
        else:
            return False
        millis = three_digits(chars + SECOND_CHARS)
        if size == US_CHARS:
            micros = three_digits(chars + SECOND_CHARS + 3)
        instant.second = self._seconds[place].second
        instant.nanos = millis * 1_000_000 + micros * 1000
        instant.digits = size == US_CHARS
        return millis >= 0 and micros >= 0

    cdef int _remember(self, str text, int64_t second) except -1:
        if PyUnicode_IS_COMPACT_ASCII(text) and text[SECOND_CHARS - 1] == ".":
            memcpy(
                self._seconds[self._next_second].text, PyUnicode_1BYTE_DATA(text), SECOND_CHARS
            )
            self._seconds[self._next_second].second = second
            self._next_second = (self._next_second + 1) % KNOWN_SECONDS
        return 0


def identities(envelopes):
    """Return the identity of each envelope."""
    return [identity(each) for each in envelopes]


cdef str identity(object envelope):
    if type(envelope) is not envelope_type:
        raise TypeError(f"not an envelope: {envelope!r}")
    series = field(envelope, envelope_series)
    if type(series) is not series_type:
        raise TypeError(f"not a series: {series!r}")
    cdef str label = field(series, series_label)
    cdef str end = field(series, series_identity_end)
    local_us, ordinal = field(envelope, envelope_local_us), field(envelope, envelope_ordinal)
    cdef uint8_t[48] numbers
    cdef uint8_t* start
    cdef uint8_t* at
    cdef str text
    cdef Py_ssize_t size
    if not (PyUnicode_IS_COMPACT_ASCII(label) and PyUnicode_IS_COMPACT_ASCII(end)):
        return f"{label}:{local_us}:{ordinal}{end}"
    start = write_number(numbers + sizeof(numbers), ordinal) - 1
    start[0] = c":"
    start = write_number(start, local_us) - 1
    start[0] = c":"
    size = numbers + sizeof(numbers) - start
    text = PyUnicode_New(PyUnicode_GET_LENGTH(label) + size + PyUnicode_GET_LENGTH(end), 127)
    at = copied(PyUnicode_1BYTE_DATA(text), PyUnicode_1BYTE_DATA(label), PyUnicode_GET_LENGTH(label))
    at = copied(at, start, size)
    copied(at, PyUnicode_1BYTE_DATA(end), PyUnicode_GET_LENGTH(end))
    return text


cdef object find_slot(object slots, object record, Layout* layout):
    key = (field(record, layout.exchange), field(record, layout.symbol))
    cdef PyObject* found = PyDict_GetItemWithError(slots, key)
    # Its `__missing__` opens a series.
    return slots[key] if found is NULL else <object>found


cdef object next_ordinal(dict counts, str label):
    cdef PyObject* found = PyDict_GetItemWithError(counts, label)
    ordinal = 0 if found is NULL else <object>found
    counts[label] = ordinal + 1
    return ordinal


cdef inline int three_digits(uint8_t* chars) noexcept:
    """Read three digits; -1 when they are none."""
    cdef unsigned int first = chars[0] - c"0", second = chars[1] - c"0", third = chars[2] - c"0"
    if first > 9 or second > 9 or third > 9:
        return -1
    return first * 100 + second * 10 + third


cdef uint8_t* write_number(uint8_t* end, int64_t number) noexcept:
    """Write a number so that it ends before `end`; return where it starts."""
    cdef uint64_t rest = -<uint64_t>number if number < 0 else <uint64_t>number
    end -= 1
    end[0] = c"0" + rest % 10
    while rest > 9:
        rest //= 10
        end -= 1
        end[0] = c"0" + rest % 10
    if number < 0:
        end -= 1
        end[0] = c"-"
    return end
