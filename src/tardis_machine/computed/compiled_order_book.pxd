"""What compiled snapshots use of compiled books."""


cdef class CompiledBookSide:
    cdef readonly list levels
    cdef public Py_ssize_t changed_depth
    cdef double _sign
    cdef object _changes
    # Of each level: its price, that of an ask negated, so that both sides sort upwards; its amount.
    cdef double* _keys
    cdef double* _amounts
    cdef Py_ssize_t _size, _room
    # Texts of the best levels, best first, each with a comma behind it, and where each one ends.
    cdef Py_ssize_t _text_depth, _texts, _text_room
    cdef char* _text
    cdef Py_ssize_t* _ends

    cdef list best_levels(self, Py_ssize_t depth)
    cdef bytes written(self, Py_ssize_t depth)
    cdef int _load(self, object levels) except -1
    cdef int _apply(self, object changes) except -1
    cdef Py_ssize_t _index(self, double key) noexcept
    cdef int _insert(self, Py_ssize_t index, double key, double amount, object level) except -1
    cdef int _remove(self, Py_ssize_t index) except -1
    cdef int _reserve(self, Py_ssize_t size) except -1
    cdef int _insert_text(self, Py_ssize_t depth, object level) except -1
    cdef void _remove_text(self, Py_ssize_t depth) noexcept


cdef class CompiledOrderBook:
    cdef readonly CompiledBookSide bids
    cdef readonly CompiledBookSide asks
    cdef bint _has_snapshot, _removes_crossed_levels
    cdef object _on_removal

    cdef int follow(self, object change) except -1
    cdef bint _is_crossed(self) noexcept
    cdef int _remove_crossed(self, object new_asks) except -1
