"""What compiled blocks use of compiled payloads."""

from libc.stdint cimport uint64_t

from tardis_machine.bronze.wire cimport Instant


# Where the records of one type keep what is read of them, and the number of their payload.
cdef struct Layout:
    int payload
    bint is_execution
    Py_ssize_t exchange
    Py_ssize_t symbol
    Py_ssize_t timestamp
    Py_ssize_t local_timestamp
    # Of trades and liquidations:
    Py_ssize_t id
    Py_ssize_t price
    Py_ssize_t amount
    Py_ssize_t side
    # Of book changes:
    Py_ssize_t is_snapshot
    Py_ssize_t bids
    Py_ssize_t asks


cdef Layout* layout_of(object record) noexcept
cdef object write_record(
    object record,
    Layout* layout,
    bytes head,
    bytes stamp,
    Instant* local,
    Instant* time,
    uint64_t ordinal,
)
