"""Short ways to write the records that the tests of computed records need."""

from collections.abc import Sequence

from tardis_machine.computed.pipeline import Computables
from tardis_machine.model.control import Disconnect
from tardis_machine.model.data_types import computed_specs
from tardis_machine.model.records import (
    BookChange,
    BookLevel,
    BookSnapshot,
    EncodedBookSnapshot,
    Record,
    Side,
    Trade,
)
from tardis_machine.model.time import ms_text, us_text

Pairs = Sequence[tuple[float, float]]

START_MS = 1_709_251_200_000
"""2024-03-01T00:00:00Z, a multiple of every interval used here."""


def at(ms: int) -> str:
    """Return the exchange time this many milliseconds after the start."""
    return ms_text(START_MS + ms)


def local(ms: int) -> str:
    """Return the arrival time of a message of that moment, a millisecond later."""
    return us_text((START_MS + ms + 1) * 1000)


def levels(pairs: Pairs) -> list[BookLevel]:
    return [BookLevel(float(price), float(amount)) for price, amount in pairs]


def change(
    bids: Pairs = (),
    asks: Pairs = (),
    ms: int = 0,
    *,
    is_snapshot: bool = False,
    symbol: str = "XBTUSD",
    exchange: str = "bitmex",
) -> BookChange:
    return BookChange(
        symbol=symbol,
        exchange=exchange,
        is_snapshot=is_snapshot,
        bids=levels(bids),
        asks=levels(asks),
        timestamp=at(ms),
        local_timestamp=local(ms),
    )


def snapshot(bids: Pairs = (), asks: Pairs = (), ms: int = 0, **names: str) -> BookChange:
    return change(bids, asks, ms, is_snapshot=True, **names)


def trade(
    price: float,
    amount: float,
    ms: int = 0,
    side: Side = "buy",
    *,
    symbol: str = "XBTUSD",
    exchange: str = "bitmex",
) -> Trade:
    return Trade(
        symbol=symbol,
        exchange=exchange,
        price=float(price),
        amount=float(amount),
        side=side,
        timestamp=at(ms),
        local_timestamp=local(ms),
    )


def disconnect(exchange: str = "bitmex", ms: int = 0) -> Disconnect:
    return Disconnect(exchange=exchange, local_timestamp=local(ms))


def triggered(data_types: Sequence[str], records: Sequence[Record]) -> list[list[Record]]:
    """Return what each record triggers, snapshots decoded."""
    computables = Computables(computed_specs(data_types))
    return [[decoded(record) for record in computables.triggered_by(record)] for record in records]


def decoded(record: Record) -> Record:
    return record.decoded() if isinstance(record, EncodedBookSnapshot) else record


def pairs(side: Sequence[object]) -> list[tuple[object, object]]:
    """Return the levels of a snapshot or a book side as (price, amount)."""
    return [(level.price, level.amount) for level in side]  # type: ignore[attr-defined]


def shown(record: Record) -> tuple[list[tuple[object, object]], list[tuple[object, object]]]:
    """Return the bids and asks of a snapshot."""
    assert isinstance(record, BookSnapshot)
    return pairs(record.bids), pairs(record.asks)
