"""Read and write fields of structs and slotted classes by their place in memory.

Only for objects of exactly the class that `offset_of` was asked for.
"""

from cpython.object cimport PyObject, PyTypeObject, Py_TYPE
from cpython.ref cimport Py_INCREF


cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        int type
        Py_ssize_t offset

    const int T_OBJECT_EX


cdef extern from "Python.h":
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member

    PyTypeObject PyMemberDescr_Type
    PyObject* PyType_GenericAlloc(PyTypeObject* kind, Py_ssize_t items) except NULL
    bint PyType_IS_GC(PyTypeObject* kind)


cdef inline Py_ssize_t offset_of(object owner, str name) except -1:
    """Return where objects of a class keep a field; ImportError when it is no plain slot."""
    cdef object descriptor = getattr(owner, name)
    cdef PyMemberDef* member
    if <PyTypeObject*>Py_TYPE(descriptor) == &PyMemberDescr_Type:
        member = (<PyMemberDescrObject*>descriptor).d_member
        if member.type == T_OBJECT_EX:
            return member.offset
    raise ImportError(f"{name} of {owner.__name__} is no slot")


cdef inline object field(object owner, Py_ssize_t offset):
    """Return the value of a field."""
    cdef PyObject* value = slot(<PyObject*>owner, offset)[0]
    if value is NULL:
        raise AttributeError("a field has no value")
    return <object>value


cdef inline PyObject** slot(PyObject* owner, Py_ssize_t offset) noexcept:
    """Return where a field of an object is."""
    return <PyObject**>(<char*>owner + offset)


cdef inline bint can_be_filled(object struct) except -1:
    """Say whether structs of a class are nothing but their fields, so that they may be made here.

    A struct that is collected by cycles is left to msgspec, which decides when it is tracked.
    """
    return (
        struct.__dictoffset__ == 0
        and struct.__weakrefoffset__ == 0
        and not PyType_IS_GC(<PyTypeObject*>struct)
        and not hasattr(struct, "__post_init__")
    )


cdef inline void fill(object owner, Py_ssize_t offset, object value) noexcept:
    """Set a field that has no value yet."""
    Py_INCREF(value)
    slot(<PyObject*>owner, offset)[0] = <PyObject*>value
