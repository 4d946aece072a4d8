"""The loop over recorded lines: finds what decodes and maps each of them, and calls it."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.string cimport memcpy

from tardis_machine.exchanges.decoding.compiled_messages cimport MessageDecoder

cdef enum:
    # The layout of a line, as `exchanges/lines.py` has it.
    LOCAL_DIGITS = 26
    MESSAGE_START = 29


def map_lines(list lines, list keys, dict routes, answer, emit, shape_errors, describe):
    """Decode and map lines in their order; see `Normalizer.map_lines`.

    Args:
        lines: of one connection.
        keys: The key of each line's tag.
        routes: What decodes and what maps the messages of a key; empty when nobody reads them.
        answer: Returns the route of a message whose key is not known.
        emit: Takes the records.
        shape_errors: What is raised for messages that do not have the documented shape.
        describe: Returns the error to raise instead, from a line and such an error.
    """
    cdef bytes line = b""
    cdef tuple route
    cdef PyObject *known
    cdef Py_ssize_t place
    try:
        for place in range(len(lines)):
            line = lines[place]
            known = PyDict_GetItem(routes, keys[place])
            route = answer(_message(line)) if known is NULL else <tuple><object>known
            if route:
                decode, map_decoded = route
                map_decoded(_decoded(decode, line), _local(line), emit)
    except shape_errors as error:
        raise describe(line, error) from error


cdef inline object _decoded(decode, bytes line):
    if type(decode) is MessageDecoder and PyBytes_GET_SIZE(line) > MESSAGE_START:
        # No copy of the message.
        return (<MessageDecoder>decode).decode(
            PyBytes_AS_STRING(line) + MESSAGE_START, PyBytes_GET_SIZE(line) - MESSAGE_START
        )
    return decode(_message(line))


cdef inline bytes _message(bytes line):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(line) - MESSAGE_START
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(line) + MESSAGE_START, size) if size > 0 else b""


cdef inline str _local(bytes line):
    """Return the time of arrival as it stands in records."""
    cdef char text[LOCAL_DIGITS + 1]
    if PyBytes_GET_SIZE(line) < LOCAL_DIGITS:
        return str(line, "ascii") + "Z"
    memcpy(text, PyBytes_AS_STRING(line), LOCAL_DIGITS)
    text[LOCAL_DIGITS] = c"Z"
    return PyUnicode_DecodeASCII(text, LOCAL_DIGITS + 1, NULL)
