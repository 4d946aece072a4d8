"""Messages of venues to their structs, as msgspec decodes them when it is not strict.

Read here is what venues send: objects without blanks, texts of plain ASCII, decimals that are doubles
without rounding twice. A message with anything else in it, an error too, is decoded by msgspec.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_Append
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_GET_LENGTH
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from msgspec import NODEFAULT, Raw

from tardis_machine.exchanges.compiled_level_texts cimport ACTIONS, PAIRS, SIDES, rewritten_levels
from tardis_machine.exchanges.decoding.json_numbers cimport new_reference, read_number
from tardis_machine.exchanges.decoding.json_text cimport (
    DEEPEST,
    Span,
    Text,
    is_word,
    read_string,
    skip,
    skip_value,
    skip_word,
)
from tardis_machine.model.ascii_texts cimport ascii_text, characters_of
from tardis_machine.model.struct_fields cimport (
    PyType_GenericAlloc,
    can_be_filled,
    offset_of,
    slot,
)

cdef enum Kind:
    TEXT = 1
    WORD = 2
    NUMBER = 4
    INTEGER = 8
    TRUTH = 16
    NOTHING = 32
    PART = 64
    PARTS = 128
    PAIR_LEVELS = 256
    ACTION_LEVELS = 512
    SIDE_LEVELS = 1024

cdef dict KINDS = {
    "text": TEXT,
    "word": WORD,
    "number": NUMBER,
    "integer": INTEGER,
    "truth": TRUTH,
    "nothing": NOTHING,
    "part": PART,
    "parts": PARTS,
    "pairs": PAIR_LEVELS,
    "actions": ACTION_LEVELS,
    "sides": SIDE_LEVELS,
}

cdef enum:
    SHORT_BYTES = 23
    TABLE_SIZE = 1024

cdef object NO_LEVELS = Raw(b"[]")


cdef class Shape:
    """A struct, and what the values of its fields may be.

    Args:
        struct: whose fields are nothing but slots.
        fields: of each its name on the wire, its name in the struct, the kinds of values it takes,
            its default, what makes one, the shape of its parts, and the words it may be.
        is_array: whether it is an array on the wire.
    """

    def __init__(self, struct, list fields, bint is_array):
        cdef Field *field
        cdef Py_ssize_t place
        if not fields or not can_be_filled(struct):
            raise ImportError(f"{struct.__name__} cannot be filled")
        self.struct, self.is_array = struct, is_array
        self.fields_kept = fields
        self.fields = <Field *>PyMem_Calloc(len(fields) + 1, sizeof(Field))
        if self.fields is NULL:
            raise MemoryError
        for place in range(len(fields)):
            field = &self.fields[place]
            wire_name, name, kinds, default, factory, part, words = fields[place]
            field.name = PyBytes_AS_STRING(wire_name)
            field.name_size = PyBytes_GET_SIZE(wire_name)
            field.offset = offset_of(struct, name)
            for kind in kinds:
                field.kinds |= KINDS[kind]
            field.default = NULL if default is NODEFAULT else <PyObject *>default
            field.factory = NULL if factory is NODEFAULT else <PyObject *>factory
            field.part = <PyObject *>part
            field.words = <PyObject *>words
        self.count = len(fields)

    def __dealloc__(self):
        PyMem_Free(self.fields)


cdef class MessageDecoder:
    """Decodes messages of one shape; `decode_slowly` takes those that are not written as usual."""

    def __init__(self, Shape shape, decode_slowly):
        self.shape = shape
        self.decode_slowly = decode_slowly

    def __call__(self, message, /):
        if type(message) is not bytes:
            return self.decode_slowly(message)
        return self.decode(PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message))

    cdef object decode(self, const char *start, Py_ssize_t size):
        cdef Text text
        cdef PyObject *made
        text.at, text.end = start, start + size
        made = _read_part(self.shape, &text)
        if made is not NULL:
            decoded = <object>made
            Py_DECREF(decoded)
            if text.at == text.end:
                return decoded
        return self.decode_slowly(PyBytes_FromStringAndSize(start, size))


# What follows returns a new reference, or NULL for what is not written as usual.


cdef PyObject *_read_part(Shape shape, Text *text) except? NULL:
    cdef PyObject *made = PyType_GenericAlloc(<PyTypeObject *>shape.struct, 0)
    # Counted twice until the end, so that it is released on every way out.
    cdef object part = <object>made
    Py_DECREF(part)
    if shape.is_array:
        return new_reference(part) if _fill_array(shape, made, text) else NULL
    return new_reference(part) if _fill(shape, made, text) else NULL


cdef bint _fill(Shape shape, PyObject *made, Text *text) except -1:
    cdef Py_ssize_t filled = 0
    # Before the first field stands one without a name.
    cdef Field *last = &shape.fields[shape.count]
    cdef Field *field
    cdef Span name
    if not skip(text, c"{"):
        return False
    if not skip(text, c"}"):
        while True:
            if not (read_string(text, &name) and skip(text, c":")):
                return False
            field = _find(shape, &name, last)
            if field is NULL:
                if not skip_value(text, DEEPEST):
                    return False
            elif _set(field, made, text):
                filled += 1
                last = field
            else:
                return False
            if not skip(text, c","):
                if skip(text, c"}"):
                    break
                return False
    return filled == shape.count or _set_defaults(shape, made, 0)


cdef bint _fill_array(Shape shape, PyObject *made, Text *text) except -1:
    cdef Py_ssize_t place = 0
    if not skip(text, c"["):
        return False
    if not skip(text, c"]"):
        while True:
            if place < shape.count:
                if not _set(&shape.fields[place], made, text):
                    return False
                place += 1
            elif not skip_value(text, DEEPEST):
                return False
            if not skip(text, c","):
                if skip(text, c"]"):
                    break
                return False
    return _set_defaults(shape, made, place)


cdef inline Field *_find(Shape shape, Span *name, Field *last) noexcept:
    """Find a field, which mostly is the one that followed the same one before."""
    cdef Field *field = &shape.fields[last.next]
    cdef Py_ssize_t place
    if is_word(name, field.name, field.name_size):
        return field
    for place in range(shape.count):
        field = &shape.fields[place]
        if is_word(name, field.name, field.name_size):
            last.next = place
            return field
    return NULL


cdef inline bint _set(Field *field, PyObject *made, Text *text) except -1:
    cdef PyObject **value = slot(made, field.offset)
    if value[0] is not NULL:
        # It came before; which one counts, msgspec decides.
        return False
    value[0] = _read_value(field, text)
    return value[0] is not NULL


cdef bint _set_defaults(Shape shape, PyObject *made, Py_ssize_t start) except -1:
    cdef Py_ssize_t place
    cdef PyObject **value
    cdef Field *field
    for place in range(start, shape.count):
        field = &shape.fields[place]
        value = slot(made, field.offset)
        if value[0] is not NULL:
            continue
        if field.default is not NULL:
            value[0] = new_reference(<object>field.default)
        elif field.factory is not NULL:
            value[0] = new_reference((<object>field.factory)())
        else:
            return False
    return True


cdef PyObject *_read_value(Field *field, Text *text) except? NULL:
    cdef char first
    if text.at == text.end:
        return NULL
    first = text.at[0]
    if first == c'"':
        return _read_text(field, text)
    if first == c"[":
        return _read_array(field, text)
    if first == c"{":
        if field.kinds & PART and not (<Shape>field.part).is_array:
            return _read_part(<Shape>field.part, text)
    elif first == c"n":
        if field.kinds & NOTHING and skip_word(text, b"null", 4):
            return new_reference(None)
    elif first == c"t":
        if field.kinds & TRUTH and skip_word(text, b"true", 4):
            return new_reference(True)
    elif first == c"f":
        if field.kinds & TRUTH and skip_word(text, b"false", 5):
            return new_reference(False)
    elif field.kinds & (NUMBER | INTEGER):
        return read_number(text, field.kinds & NUMBER)
    return NULL


cdef PyObject *_read_array(Field *field, Text *text) except? NULL:
    cdef Span buyers
    if field.kinds & (PAIR_LEVELS | ACTION_LEVELS) and skip_word(text, b"[]", 2):
        return new_reference(NO_LEVELS)
    if field.kinds & PARTS:
        return _read_parts(<Shape>field.part, text)
    if field.kinds & PAIR_LEVELS:
        return _new_or_null(rewritten_levels(text, PAIRS, NULL))
    if field.kinds & ACTION_LEVELS:
        return _new_or_null(rewritten_levels(text, ACTIONS, NULL))
    if field.kinds & SIDE_LEVELS:
        buyers.start = PyBytes_AS_STRING(<bytes>field.words)
        buyers.size = PyBytes_GET_SIZE(<bytes>field.words)
        return _new_or_null(rewritten_levels(text, SIDES, &buyers))
    if field.kinds & PART and (<Shape>field.part).is_array:
        return _read_part(<Shape>field.part, text)
    return NULL


cdef PyObject *_read_parts(Shape shape, Text *text) except? NULL:
    cdef list parts = []
    cdef PyObject *part
    text.at += 1
    if not skip(text, c"]"):
        while True:
            part = _read_part(shape, text)
            if part is NULL:
                return NULL
            PyList_Append(parts, <object>part)
            Py_XDECREF(part)
            if not skip(text, c","):
                if skip(text, c"]"):
                    break
                return NULL
    return new_reference(parts)


cdef PyObject *_read_text(Field *field, Text *text) except? NULL:
    cdef Span string
    cdef Text inside
    cdef PyObject *number
    if not read_string(text, &string):
        return NULL
    if field.kinds & TEXT:
        return _text_of(&string)
    if field.kinds & WORD:
        return _word_of(<tuple>field.words, &string)
    if field.kinds & (NUMBER | INTEGER):
        inside.at, inside.end = string.start, string.start + string.size
        number = read_number(&inside, field.kinds & NUMBER)
        if inside.at == inside.end:
            return number
        Py_XDECREF(number)
    return NULL


cdef PyObject *_word_of(tuple words, Span *string) except? NULL:
    cdef Py_ssize_t size
    cdef const char *start
    for word in words:
        start = PyUnicode_AsUTF8AndSize(word, &size)
        if is_word(string, start, size):
            return new_reference(word)
    return NULL


cdef struct Known:
    uint64_t sign
    PyObject *text

# Short texts that came before: symbols, sides, states. Whoever looks one up later finds its hash.
cdef Known[TABLE_SIZE] known


cdef PyObject *_text_of(Span *string) except? NULL:
    cdef Py_ssize_t size = string.size
    cdef uint64_t[3] words
    cdef uint64_t sign
    cdef Known *entry
    if size > SHORT_BYTES:
        return new_reference(ascii_text(string.start, size))
    words[0] = words[1] = words[2] = 0
    memcpy(words, string.start, size)
    # The length is part of it: a text may end with zero bytes no more than contain them.
    sign = (words[0] * 0x9E3779B97F4A7C15ULL) ^ (words[1] * 0xC2B2AE3D27D4EB4FULL)
    sign = ((sign ^ (words[2] + size)) * 0x165667B19E3779F9ULL)
    entry = &known[sign >> 54]
    if entry.text is not NULL and entry.sign == sign and _is_text(entry.text, string):
        Py_INCREF(<object>entry.text)
        return entry.text
    text = ascii_text(string.start, size)
    Py_XDECREF(entry.text)
    entry.sign, entry.text = sign, new_reference(text)
    return new_reference(text)


cdef inline bint _is_text(PyObject *text, Span *string) noexcept:
    return is_word(string, characters_of(<object>text), PyUnicode_GET_LENGTH(<object>text))


cdef inline PyObject *_new_or_null(object value) noexcept:
    return NULL if value is None else new_reference(value)
