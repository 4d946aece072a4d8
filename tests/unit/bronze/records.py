"""Records that differ from each other only in what a test names."""

from typing import Any

from tardis_machine.model.records import BookChange, BookSnapshot, Trade
from tardis_machine.model.time import us_text

LOCAL_US = 1_709_251_200_123_456

_COMMON = {
    "symbol": "XBTUSD",
    "exchange": "bitmex",
    "timestamp": "2024-03-01T00:00:00.120Z",
    "local_timestamp": us_text(LOCAL_US),
}


def trade(**fields: Any) -> Trade:
    return Trade(**(_COMMON | {"price": 61_234.5, "amount": 300.0, "side": "sell"} | fields))


def book_change(**fields: Any) -> BookChange:
    return BookChange(**(_COMMON | {"is_snapshot": False, "bids": [], "asks": []} | fields))


def snapshot(**fields: Any) -> BookSnapshot:
    computed = {"name": "book_snapshot_0_0ms", "depth": 0, "interval": 0, "bids": [], "asks": []}
    return BookSnapshot(**(_COMMON | computed | fields))
