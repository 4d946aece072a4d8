"""Book changes of levels in either form."""

from msgspec import Raw

from tardis_machine.model.compiled_makers cimport (
    made_book_change,
    made_level,
    made_text_book_change,
)

cdef object RAW = Raw


def book_levels(levels):
    """Return the levels as records have them."""
    return [made_level(level.price, level.amount) for level in levels]


def book_change(
    symbol, exchange, bids, asks, timestamp, local, *, is_snapshot, read=book_levels
):
    """Return a book change whose sides are levels, made of what `read` gets, or texts."""
    if type(bids) is RAW and type(asks) is RAW:
        return made_text_book_change(symbol, exchange, is_snapshot, bids, asks, timestamp, local)
    return made_book_change(
        symbol, exchange, is_snapshot, read(bids), read(asks), timestamp, local
    )
