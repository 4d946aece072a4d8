# cython: cdivision=True
"""Epoch times as text; those that are far from now are left to pure Python."""

from cpython.unicode cimport PyUnicode_GET_LENGTH
from libc.string cimport memcpy

from tardis_machine.model.ascii_texts cimport PyUnicode_IS_ASCII, ascii_text, characters_of

cdef enum:
    SECOND_BYTES = 20  # 2024-03-01T00:00:00.

cdef long long END_OF_9999 = 253_402_300_800

# Doubles beyond it are no longer whole numbers one by one; as microseconds it is the year 2255.
cdef double LAST_INTEGER = 2.0**53

# The text of the second that was written last: most times are of the same second.
cdef char second_text[SECOND_BYTES]
cdef long long text_second = -1


def ms_texts(slow):
    """Return `model.time.ms_text`; `slow` writes times that are out of range."""

    def ms_text(milliseconds):
        cdef double value = milliseconds
        return _ms_text(<long long>value) if 0 <= value < END_OF_9999 * 1e3 else slow(milliseconds)

    return ms_text


def auto_texts(slow):
    """Return `model.time.auto_text`; `slow` writes times that are out of range."""

    def auto_text(number):
        cdef double value = number
        if 0 <= value < END_OF_9999 * 1e3:
            return _ms_text(<long long>value)
        if 1e15 < value < LAST_INTEGER:
            return _us_text(<long long>value)
        return slow(number)

    return auto_text


def iso_texts(slow):
    """Return `model.time.iso_text`; `slow` takes texts that do not stay as they are."""

    def iso_text(text):
        cdef const char *at
        if type(text) is str and PyUnicode_IS_ASCII(text) and PyUnicode_GET_LENGTH(text) == 24:
            at = characters_of(text)
            if at[10] == c"T" and at[19] == c"." and at[23] == c"Z":
                return text
        return slow(text)

    return iso_text


def iso_us_texts(slow):
    """Return `model.time.iso_us_text`; `slow` takes texts that do not stay as they are."""

    def iso_us_text(text):
        cdef const char *at
        if type(text) is str and PyUnicode_IS_ASCII(text) and PyUnicode_GET_LENGTH(text) == 27:
            at = characters_of(text)
            if at[19] == c"." and at[26] == c"Z":
                return text
        return slow(text)

    return iso_us_text


cdef str _ms_text(long long milliseconds):
    cdef char text[SECOND_BYTES + 4]
    _write_second(text, milliseconds // 1000)
    _write_digits(text + SECOND_BYTES, milliseconds % 1000, 3)
    text[SECOND_BYTES + 3] = c"Z"
    return ascii_text(text, SECOND_BYTES + 4)


cdef str _us_text(long long microseconds):
    cdef char text[SECOND_BYTES + 7]
    _write_second(text, microseconds // 1_000_000)
    _write_digits(text + SECOND_BYTES, microseconds % 1_000_000, 6)
    text[SECOND_BYTES + 6] = c"Z"
    return ascii_text(text, SECOND_BYTES + 7)


cdef void _write_second(char *text, long long second) noexcept:
    global text_second
    if second != text_second:
        _compute_second(second)
        text_second = second
    memcpy(text, second_text, SECOND_BYTES)


cdef void _compute_second(long long second) noexcept:
    """Fill `second_text`: days to a date of the proleptic Gregorian calendar, by eras."""
    cdef long long days = second // 86_400 + 719_468
    cdef int rest = second % 86_400
    cdef long long era = days // 146_097
    cdef int day_of_era = days - era * 146_097
    cdef int year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    cdef int day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    cdef int shifted = (5 * day_of_year + 2) // 153
    cdef int month = shifted + (3 if shifted < 10 else -9)
    memcpy(second_text, b"0000-00-00T00:00:00.", SECOND_BYTES)
    _write_digits(second_text, year_of_era + era * 400 + (month <= 2), 4)
    _write_digits(second_text + 5, month, 2)
    _write_digits(second_text + 8, day_of_year - (153 * shifted + 2) // 5 + 1, 2)
    _write_digits(second_text + 11, rest // 3600, 2)
    _write_digits(second_text + 14, rest // 60 % 60, 2)
    _write_digits(second_text + 17, rest % 60, 2)


cdef void _write_digits(char *text, long long number, int count) noexcept:
    while count:
        count -= 1
        text[count] = c"0" + number % 10
        number //= 10
