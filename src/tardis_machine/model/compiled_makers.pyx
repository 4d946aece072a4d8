"""Records made by filling the places of their fields."""

from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF

from tardis_machine.model.records import BookChange, BookLevel, EncodedBookChange, Trade

from tardis_machine.model.struct_fields cimport (
    PyType_GenericAlloc,
    can_be_filled,
    fill,
    offset_of,
)

cdef enum:
    TRADE_FIELDS = 8
    CHANGE_FIELDS = 7
    LEVEL_FIELDS = 2

cdef Py_ssize_t[TRADE_FIELDS] TRADE_PLACES
cdef Py_ssize_t[CHANGE_FIELDS] CHANGE_PLACES
cdef Py_ssize_t[CHANGE_FIELDS] TEXT_CHANGE_PLACES
cdef Py_ssize_t[LEVEL_FIELDS] LEVEL_PLACES


cdef _find_places(struct, Py_ssize_t *places, Py_ssize_t count):
    """Note where a struct keeps its fields, in their order."""
    cdef Py_ssize_t number
    if not can_be_filled(struct) or len(struct.__struct_fields__) != count:
        raise ImportError(f"{struct.__name__} cannot be filled")
    for number in range(count):
        places[number] = offset_of(struct, struct.__struct_fields__[number])


_find_places(Trade, TRADE_PLACES, TRADE_FIELDS)
_find_places(BookChange, CHANGE_PLACES, CHANGE_FIELDS)
_find_places(EncodedBookChange, TEXT_CHANGE_PLACES, CHANGE_FIELDS)
_find_places(BookLevel, LEVEL_PLACES, LEVEL_FIELDS)

cdef object TRADE = Trade
cdef object CHANGE = BookChange
cdef object TEXT_CHANGE = EncodedBookChange
cdef object LEVEL = BookLevel


def new_trade(symbol, exchange, id_, price, amount, side, timestamp, local_timestamp, /):
    """Make a trade."""
    made = _empty(TRADE)
    fill(made, TRADE_PLACES[0], symbol)
    fill(made, TRADE_PLACES[1], exchange)
    fill(made, TRADE_PLACES[2], id_)
    fill(made, TRADE_PLACES[3], price)
    fill(made, TRADE_PLACES[4], amount)
    fill(made, TRADE_PLACES[5], side)
    fill(made, TRADE_PLACES[6], timestamp)
    fill(made, TRADE_PLACES[7], local_timestamp)
    return made


def new_book_change(symbol, exchange, is_snapshot, bids, asks, timestamp, local_timestamp, /):
    """Make a book change with levels."""
    return made_book_change(
        symbol, exchange, is_snapshot, bids, asks, timestamp, local_timestamp
    )


def new_level(price, amount, /):
    """Make a level of a book change."""
    return made_level(price, amount)


cdef object made_book_change(
    object symbol, object exchange, object is_snapshot,
    object bids, object asks, object timestamp, object local,
):
    """Make a book change with levels."""
    return _made_change(
        CHANGE, CHANGE_PLACES, symbol, exchange, is_snapshot, bids, asks, timestamp, local
    )


cdef object made_text_book_change(
    object symbol, object exchange, object is_snapshot,
    object bids, object asks, object timestamp, object local,
):
    """Make a book change with sides that are JSON."""
    return _made_change(
        TEXT_CHANGE, TEXT_CHANGE_PLACES, symbol, exchange, is_snapshot, bids, asks, timestamp, local
    )


cdef object made_level(object price, object amount):
    """Make a level of a book change."""
    made = _empty(LEVEL)
    fill(made, LEVEL_PLACES[0], price)
    fill(made, LEVEL_PLACES[1], amount)
    return made


cdef inline object _made_change(
    object struct, Py_ssize_t *places, object symbol, object exchange, object is_snapshot,
    object bids, object asks, object timestamp, object local,
):
    made = _empty(struct)
    fill(made, places[0], symbol)
    fill(made, places[1], exchange)
    fill(made, places[2], is_snapshot)
    fill(made, places[3], bids)
    fill(made, places[4], asks)
    fill(made, places[5], timestamp)
    fill(made, places[6], local)
    return made


cdef inline object _empty(object struct):
    cdef PyObject *made = PyType_GenericAlloc(<PyTypeObject *>struct, 0)
    record = <object>made
    # The name holds it now.
    Py_DECREF(record)
    return record
