"""The records that there are most of, made of all their fields in order.

A record is made by naming its fields; where millions of them are made, compiled code fills them by
their places instead, which costs half as much (`compiled_makers.pyx`).
"""

from collections.abc import Callable, Sequence

from msgspec import UnsetType

from tardis_machine.model.compiled import compiled_module
from tardis_machine.model.records import BookChange, BookLevel, Side, Trade


def _new_trade(
    symbol: str,
    exchange: str,
    id_: str | UnsetType,
    price: float,
    amount: float,
    side: Side,
    timestamp: str,
    local_timestamp: str,
) -> Trade:
    return Trade(
        symbol=symbol,
        exchange=exchange,
        id=id_,
        price=price,
        amount=amount,
        side=side,
        timestamp=timestamp,
        local_timestamp=local_timestamp,
    )


def _new_book_change(
    symbol: str,
    exchange: str,
    is_snapshot: bool,  # noqa: FBT001
    bids: Sequence[BookLevel],
    asks: Sequence[BookLevel],
    timestamp: str,
    local_timestamp: str,
) -> BookChange:
    return BookChange(
        symbol=symbol,
        exchange=exchange,
        is_snapshot=is_snapshot,
        bids=bids,
        asks=asks,
        timestamp=timestamp,
        local_timestamp=local_timestamp,
    )


_compiled = compiled_module("tardis_machine.model.compiled_makers")

new_trade = _new_trade if _compiled is None else _compiled.new_trade
new_book_change = _new_book_change if _compiled is None else _compiled.new_book_change
new_level: Callable[[float, float], BookLevel] = (
    BookLevel if _compiled is None else _compiled.new_level
)
