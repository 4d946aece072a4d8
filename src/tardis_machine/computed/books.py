"""Makes order books: compiled ones where those were built, otherwise those of `order_book.py`."""

from tardis_machine.computed.order_book import BookSide, OrderBook
from tardis_machine.model.compiled import compiled_module

_compiled = compiled_module("tardis_machine.computed.compiled_order_book")

new_side: type[BookSide] = BookSide if _compiled is None else _compiled.CompiledBookSide
new_book: type[OrderBook] = OrderBook if _compiled is None else _compiled.CompiledOrderBook
