"""Reading JSON byte by byte, in the form in which venues write it.

Without blanks, escapes and anything but ASCII: whoever meets something else gets a false answer, and
leaves the message to a reader that knows all of JSON.
"""

from libc.string cimport memcmp

from tardis_machine.model.ascii_texts cimport has_special


cdef enum:
    # A decimal with more digits may be too large for a double.
    LONGEST_NUMBER_BYTES = 300
    DEEPEST = 32

cdef struct Text:
    const char *at
    const char *end

cdef struct Span:
    const char *start
    Py_ssize_t size


cdef inline bint skip(Text *text, char expected) noexcept nogil:
    """Pass over one character if it is the next."""
    if text.at == text.end or text.at[0] != expected:
        return False
    text.at += 1
    return True


cdef inline bint skip_word(Text *text, const char *word, Py_ssize_t size) noexcept nogil:
    if text.end - text.at < size or memcmp(text.at, word, size) != 0:
        return False
    text.at += size
    return True


cdef inline bint is_word(Span *span, const char *word, Py_ssize_t size) noexcept nogil:
    # Most words differ in their first letter: a comparison costs less than a call.
    if span.size != size or (size and span.start[0] != word[0]):
        return False
    return memcmp(span.start, word, size) == 0


cdef inline bint read_string(Text *text, Span *string) noexcept nogil:
    """Read a text without escapes."""
    cdef unsigned char each
    if not skip(text, c'"'):
        return False
    string.start = text.at
    while text.end - text.at >= 8 and not has_special(text.at):
        text.at += 8
    while text.at != text.end:
        each = <unsigned char>text.at[0]
        if each == c'"':
            string.size = text.at - string.start
            text.at += 1
            return True
        if each == c"\\" or each < 0x20 or each >= 0x80:
            return False
        text.at += 1
    return False


cdef inline bint skip_digits(Text *text) noexcept nogil:
    cdef const char *start = text.at
    while text.at != text.end and c"0" <= text.at[0] <= c"9":
        text.at += 1
    return text.at != start


cdef inline bint read_decimal(Text *text, Span *number) noexcept nogil:
    """Read a decimal without exponent, bare or as text."""
    cdef bint is_text = skip(text, c'"')
    number.start = text.at
    skip(text, c"-")
    if not skip(text, c"0") and not skip_digits(text):
        return False
    if skip(text, c".") and not skip_digits(text):
        return False
    number.size = text.at - number.start
    if number.size > LONGEST_NUMBER_BYTES:
        return False
    return skip(text, c'"') if is_text else True


cdef inline bint skip_value(Text *text, int deepest) noexcept nogil:
    """Pass over any value."""
    cdef Span ignored
    cdef char first
    if text.at == text.end or not deepest:
        return False
    first = text.at[0]
    if first == c'"':
        return read_string(text, &ignored)
    if first == c"{" or first == c"[":
        return _skip_inside(text, first == c"{", deepest - 1)
    if first == c"t":
        return skip_word(text, b"true", 4)
    if first == c"f":
        return skip_word(text, b"false", 5)
    if first == c"n":
        return skip_word(text, b"null", 4)
    return read_decimal(text, &ignored) and skip_exponent(text)


cdef inline bint _skip_inside(Text *text, bint is_object, int deepest) noexcept nogil:
    cdef char end = c"}" if is_object else c"]"
    cdef Span ignored
    text.at += 1
    if skip(text, end):
        return True
    while True:
        if is_object and not (read_string(text, &ignored) and skip(text, c":")):
            return False
        if not skip_value(text, deepest):
            return False
        if not skip(text, c","):
            return skip(text, end)


cdef inline bint skip_exponent(Text *text) noexcept nogil:
    """Pass over an exponent of up to two digits: with more a number may be out of range."""
    cdef const char *digits
    if not (skip(text, c"e") or skip(text, c"E")):
        return True
    if not skip(text, c"-"):
        skip(text, c"+")
    digits = text.at
    return skip_digits(text) and text.at - digits <= 2
