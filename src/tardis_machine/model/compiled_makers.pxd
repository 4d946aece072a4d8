"""What makes records inside other compiled modules, without a call by Python."""


cdef object made_book_change(
    object symbol, object exchange, object is_snapshot,
    object bids, object asks, object timestamp, object local,
)
cdef object made_text_book_change(
    object symbol, object exchange, object is_snapshot,
    object bids, object asks, object timestamp, object local,
)
cdef object made_level(object price, object amount)
