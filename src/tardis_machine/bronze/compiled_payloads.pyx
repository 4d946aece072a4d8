# cython: language_level=3, boundscheck=False, wraparound=False
"""Envelopes of trades, liquidations and book changes, written byte by byte.

Whatever is unusual about a record (a number that is no float, a time before 1970, text beyond
ASCII) gives None instead of an envelope: the generated messages know what to do with it.
"""

from cpython.bool cimport PyBool_Check
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact
from cpython.unicode cimport PyUnicode_GET_LENGTH
from libc.stdint cimport uint8_t, uint64_t

from msgspec import UNSET

from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.records import BookChange, BookLevel, Liquidation, Trade

from tardis_machine.bronze.wire cimport (
    Instant,
    copied,
    double_field,
    double_size,
    little_endian,
    tagged,
    time_field,
    time_field_size,
    varint,
    varint_size,
)
from tardis_machine.model.struct_fields cimport field, offset_of


cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    uint8_t* PyUnicode_1BYTE_DATA(object text)


# Tags of Protobuf: the number of a field and how its value is written.
cdef enum Tag:
    LOCAL_TS = 4 << 3 | 2
    ORDINAL = 7 << 3
    TIME_DIGITS = 8 << 3
    TIMESTAMP = 1 << 3 | 2
    EXECUTION_ID = 2 << 3 | 2
    EXECUTION_PRICE = 3 << 3 | 1
    EXECUTION_AMOUNT = 4 << 3 | 1
    EXECUTION_SIDE = 5 << 3
    IS_SNAPSHOT = 2 << 3
    BID_PRICES = 3 << 3 | 2
    ASK_PRICES = 5 << 3 | 2
    # From the prices of a side to its amounts.
    NEXT_COLUMN = 1 << 3


# Bytes of a Python object that somebody holds.
cdef struct Part:
    const char* start
    Py_ssize_t size


cdef object trade_type = Trade
cdef object liquidation_type = Liquidation
cdef object book_change_type = BookChange
cdef object level_type = BookLevel
cdef object unset = UNSET

cdef Layout trade_layout, liquidation_layout, book_change_layout
cdef Py_ssize_t level_price = offset_of(BookLevel, "price")
cdef Py_ssize_t level_amount = offset_of(BookLevel, "amount")


cdef int fill_layout(Layout* layout, object record_type) except -1:
    name = str(record_type.__struct_config__.tag)
    layout.payload = pb.NormalizedEvent.DESCRIPTOR.fields_by_name[name].number
    layout.is_execution = record_type is not BookChange
    layout.exchange = offset_of(record_type, "exchange")
    layout.symbol = offset_of(record_type, "symbol")
    layout.timestamp = offset_of(record_type, "timestamp")
    layout.local_timestamp = offset_of(record_type, "local_timestamp")
    if layout.is_execution:
        layout.id = offset_of(record_type, "id")
        layout.price = offset_of(record_type, "price")
        layout.amount = offset_of(record_type, "amount")
        layout.side = offset_of(record_type, "side")
    else:
        layout.is_snapshot = offset_of(record_type, "is_snapshot")
        layout.bids = offset_of(record_type, "bids")
        layout.asks = offset_of(record_type, "asks")
    return 0


fill_layout(&trade_layout, Trade)
fill_layout(&liquidation_layout, Liquidation)
fill_layout(&book_change_layout, BookChange)


cdef Layout* layout_of(object record) noexcept:
    """Return how to read a record, or NULL when it is of no type that is written here."""
    if type(record) is book_change_type:
        return &book_change_layout
    if type(record) is trade_type:
        return &trade_layout
    if type(record) is liquidation_type:
        return &liquidation_layout
    return NULL


cdef object write_record(
    object record,
    Layout* layout,
    bytes head,
    bytes stamp,
    Instant* local,
    Instant* time,
    uint64_t ordinal,
):
    """Return the envelope of a record, or None when something about it is unusual.

    Args:
        record: of a type with a layout.
        layout: where its fields are.
        head: what its series shares, encoded.
        stamp: the ingest time, encoded.
        local: when it arrived.
        time: the venue's time.
        ordinal: its position among records with the same identity otherwise.
    """
    cdef Part[2] parts
    if local.second < 0 or time.second < 0:
        return None
    parts[0] = part(head)
    parts[1] = part(stamp)
    if layout.is_execution:
        return write_execution(record, layout, parts, local, time, ordinal)
    return write_book_change(record, layout, parts, local, time, ordinal)


cdef object write_execution(
    object record, Layout* layout, Part* parts, Instant* local, Instant* time, uint64_t ordinal
):
    """Return the envelope of a trade or a liquidation, or None."""
    cdef double price, amount
    cdef Py_ssize_t id_size = -1, size
    cdef uint8_t side
    cdef uint8_t* at
    id, number = field(record, layout.id), field(record, layout.price)
    if not PyFloat_CheckExact(number):
        return None
    price = PyFloat_AS_DOUBLE(number)
    number = field(record, layout.amount)
    if not PyFloat_CheckExact(number):
        return None
    amount = PyFloat_AS_DOUBLE(number)
    side = side_number(field(record, layout.side))
    size = time_field_size(time) + double_size(price) + double_size(amount) + 2
    if id is not unset:
        if type(id) is not str or not PyUnicode_IS_COMPACT_ASCII(id):
            return None
        id_size = PyUnicode_GET_LENGTH(id)
        size += 1 + varint_size(id_size) + id_size
    if not side:
        return None
    data = new_envelope(parts, layout, local, time, ordinal, size, &at)
    if id_size >= 0:
        at = tagged(at, EXECUTION_ID, id_size)
        at = copied(at, PyUnicode_1BYTE_DATA(id), id_size)
    at = double_field(at, EXECUTION_PRICE, price)
    at = double_field(at, EXECUTION_AMOUNT, amount)
    tagged(at, EXECUTION_SIDE, side)
    return data


cdef object write_book_change(
    object record, Layout* layout, Part* parts, Instant* local, Instant* time, uint64_t ordinal
):
    """Return the envelope of a book change, or None."""
    bids, asks = field(record, layout.bids), field(record, layout.asks)
    is_snapshot = field(record, layout.is_snapshot)
    cdef uint8_t* at
    if not (PyList_CheckExact(bids) and PyList_CheckExact(asks) and PyBool_Check(is_snapshot)):
        return None
    cdef Py_ssize_t size = time_field_size(time) + side_size(bids) + side_size(asks)
    if is_snapshot:
        size += 2
    data = new_envelope(parts, layout, local, time, ordinal, size, &at)
    if is_snapshot:
        at = tagged(at, IS_SNAPSHOT, 1)
    at = side_columns(at, BID_PRICES, bids)
    if at is not NULL:
        at = side_columns(at, ASK_PRICES, asks)
    return None if at is NULL else data


cdef bytes new_envelope(
    Part* parts,
    Layout* layout,
    Instant* local,
    Instant* time,
    uint64_t ordinal,
    Py_ssize_t payload_size,
    uint8_t** at,
):
    """Return an envelope that is written up to the venue's time, and where to go on."""
    cdef uint64_t digits = local.digits | time.digits << 1
    cdef uint64_t payload_tag = layout.payload << 3 | 2
    cdef Py_ssize_t size = parts[0].size + parts[1].size + time_field_size(local) + payload_size
    size += varint_size(payload_tag) + varint_size(payload_size)
    if ordinal:
        size += 1 + varint_size(ordinal)
    if digits:
        size += 2
    cdef bytes data = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* place = <uint8_t*>PyBytes_AS_STRING(data)
    place = copied(place, <uint8_t*>parts[0].start, parts[0].size)
    place = copied(place, <uint8_t*>parts[1].start, parts[1].size)
    place = time_field(place, LOCAL_TS, local)
    if ordinal:
        place = tagged(place, ORDINAL, ordinal)
    if digits:
        place = tagged(place, TIME_DIGITS, digits)
    place = varint(place, payload_tag)
    place = varint(place, payload_size)
    at[0] = time_field(place, TIMESTAMP, time)
    return data


cdef Py_ssize_t side_size(list levels) noexcept:
    cdef Py_ssize_t size = len(levels) * 8
    return 2 * (1 + varint_size(size) + size) if size else 0


cdef uint8_t* side_columns(uint8_t* at, uint8_t tag, list levels) noexcept:
    """Write the prices and the amounts of a side; NULL when a level is unusual."""
    cdef Py_ssize_t size = len(levels) * 8
    cdef uint8_t* amounts
    if not size:
        return at
    at = tagged(at, tag, size)
    amounts = tagged(at + size, tag + NEXT_COLUMN, size)
    for level in levels:
        if type(level) is not level_type:
            return NULL
        price, amount = field(level, level_price), field(level, level_amount)
        if not (PyFloat_CheckExact(price) and PyFloat_CheckExact(amount)):
            return NULL
        at = little_endian(at, PyFloat_AS_DOUBLE(price))
        amounts = little_endian(amounts, PyFloat_AS_DOUBLE(amount))
    return amounts


cdef inline uint8_t side_number(object side) noexcept:
    """Return the number of a side, 0 when it is none."""
    if type(side) is not str:
        return 0
    if side == "buy":
        return 1
    if side == "sell":
        return 2
    return 3 if side == "unknown" else 0


cdef inline Part part(bytes data) noexcept:
    cdef Part made
    made.start = PyBytes_AS_STRING(data)
    made.size = PyBytes_GET_SIZE(data)
    return made
